package arrival

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	// MostRecorded is how many bytes of the temporary directory a [Recording] takes: those of 38 million requests.
	MostRecorded = 1 << 30
	// mostRecordedAgents is how many different User-Agents a recording has at most. They are in memory.
	mostRecordedAgents = 1 << 16
	// recordSize is the size of a request, and recordsAtOnce how many of them are written at a time, and read.
	recordSize, recordsAtOnce = 3*8 + 2*2, 1024
)

// A Recording is a [Sink] that notes the requests which it hands to another Sink, so that [Recording.Play] can hand them to others without the
// logs. It takes a few megabytes of memory, and a temporary file if the requests are many. It gives up if they are too many, if they have too
// many different User-Agents, or if the file cannot be written. It must not be used concurrently.
type Recording struct {
	next    Sink
	most    int64
	givenUp bool

	numbers map[uint64]uint16 // of agents, by their hashes
	agents  []string
	block   []byte // the records that are not in the file
	file    *os.File
	size    int64 // of the file
}

// NewRecording returns a Recording of the requests for next. It takes that many bytes of the temporary directory at most.
func NewRecording(next Sink, most int64) *Recording {
	return &Recording{next: next, most: most, numbers: make(map[uint64]uint16)}
}

// Second implements Sink.
func (r *Recording) Second(arrivals []Arrival) {
	for i := range arrivals {
		if r.givenUp {
			break
		}
		r.givenUp = !r.record(&arrivals[i])
	}
	if r.givenUp {
		_ = r.Close() // what is in the file does not matter any more
		r.numbers, r.agents, r.block = nil, nil, nil
	}
	r.next.Second(arrivals)
}

// record notes a request. It reports false if it cannot.
func (r *Recording) record(a *Arrival) bool {
	number, known := r.numbers[a.AgentHash]
	if !known {
		if len(r.agents) == mostRecordedAgents {
			return false
		}
		number = uint16(len(r.agents))
		r.numbers[a.AgentHash] = number
		r.agents = append(r.agents, a.Agent)
	}
	if len(r.block) == recordsAtOnce*recordSize && !r.write() {
		return false
	}
	b := binary.LittleEndian.AppendUint64(r.block, uint64(a.Instant))
	b = binary.LittleEndian.AppendUint64(b, a.Hash)
	b = binary.LittleEndian.AppendUint64(b, a.Path)
	b = binary.LittleEndian.AppendUint16(b, number)
	r.block = binary.LittleEndian.AppendUint16(b, a.Status)
	return true
}

// write writes the records into the file. It reports false if it cannot.
func (r *Recording) write() bool {
	if r.size+int64(len(r.block)) > r.most {
		return false
	}
	if r.file == nil {
		f, err := os.CreateTemp("", "weir-*.requests")
		if err != nil {
			return false
		}
		r.file = f
	}
	if _, err := r.file.Write(r.block); err != nil {
		return false
	}
	r.size += int64(len(r.block))
	r.block = r.block[:0]
	return true
}

// Whole reports whether all requests were noted.
func (r *Recording) Whole() bool { return !r.givenUp }

// Play hands the requests to each of some sinks, in the order in which they came, some at a time. They have all that [All] asks for but Key
// and AgentHash. Each sink has a goroutine of its own. Progress is told at the end that so many bytes of logs were read.
func (r *Recording) Play(ctx context.Context, progress *Progress, bytes int64, sinks ...Sink) error {
	failed := make([]error, len(sinks))
	var running sync.WaitGroup
	for i, sink := range sinks {
		running.Go(func() {
			told := progress
			if i > 0 {
				told = new(Progress) // one is enough
			}
			failed[i] = r.play(ctx, told, bytes, sink)
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// play hands the requests to a sink.
func (r *Recording) play(ctx context.Context, progress *Progress, size int64, sink Sink) error {
	all := r.size + int64(len(r.block))
	records := io.Reader(bytes.NewReader(r.block))
	if r.file != nil {
		records = io.MultiReader(io.NewSectionReader(r.file, 0, r.size), records)
	}
	block, arrivals := make([]byte, recordsAtOnce*recordSize), make([]Arrival, recordsAtOnce)
	for done := int64(0); done < all; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(len(block)), all-done)
		if _, err := io.ReadFull(records, block[:n]); err != nil {
			return fmt.Errorf("the requests that were noted in a temporary file cannot be read: %w", err)
		}
		some := arrivals[:n/recordSize]
		for i := range some {
			record, a := block[i*recordSize:(i+1)*recordSize], &some[i]
			a.Instant = int64(binary.LittleEndian.Uint64(record))
			a.Hash = binary.LittleEndian.Uint64(record[8:])
			a.Path = binary.LittleEndian.Uint64(record[16:])
			a.Agent = r.agents[binary.LittleEndian.Uint16(record[24:])]
			a.Status = binary.LittleEndian.Uint16(record[26:])
		}
		sink.Second(some)
		done += n
		progress.Lines.Add(int64(len(some)))
		progress.Bytes.Store(size * done / all)
	}
	return nil
}

// Close deletes the file.
func (r *Recording) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
