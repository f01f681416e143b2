package arrival

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

// Progress counts while logs are read. Its fields may be read at any time.
type Progress struct {
	Bytes atomic.Int64 // as the files lie on the disk
	Lines atomic.Int64
}

// Read reads the logs and hands their requests to sink. Files that overlap in time, as those of several servers do, are merged; the others
// are read one after the other, oldest first, in whichever order they are named.
func Read(ctx context.Context, files []string, o Options, progress *Progress, sink Sink) (Summary, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if progress == nil {
		progress = new(Progress)
	}
	ctx, cancel := context.WithCancel(ctx)
	rd := &reading{
		ctx: ctx, options: o, progress: progress, jobs: make(chan job), timeline: newTimeline(sink, o.Late), stock: stock{most: 4*o.Workers + mostBatches},
		summary: Summary{Formats: make(map[string]string, len(files)), First: math.MaxInt64, Last: math.MinInt64},
	}
	defer rd.running.Wait() // after the cancellation
	defer cancel()
	waiting, err := rd.look(files)
	if err != nil {
		return rd.summary, err
	}
	for range o.Workers {
		rd.running.Go(rd.work)
	}
	if err := rd.merge(waiting); err != nil {
		return rd.summary, err
	}
	rd.timeline.end()
	rd.summary.Late, rd.summary.Behind = rd.timeline.late, time.Duration(rd.timeline.worst)*time.Second
	rd.summary.Crowded = rd.timeline.crowded
	return rd.summary, nil
}

// reading is one pass over the logs.
type reading struct {
	ctx      context.Context //nolint:containedctx // it lives no longer than one call
	options  Options
	progress *Progress
	jobs     chan job
	running  sync.WaitGroup
	stock    stock
	timeline *timeline
	summary  Summary
}

// A cursor is a log of which a part has been read.
type cursor struct {
	name    string
	format  accesslog.Format
	first   int64 // of its first line that can be read
	order   order
	batches chan chan *batch
	failed  error    // once batches is closed
	ahead   []*batch // batches that were looked at before their turn
	batch   *batch
	next    int // the arrival in batch that is next
	lines   int64
}

// look looks at the first lines of each file, and returns the files in the order of time. Files without a line are left out.
func (rd *reading) look(files []string) ([]*cursor, error) {
	var cursors []*cursor
	for _, name := range files {
		head, format, err := rd.head(name)
		if err != nil {
			return nil, err
		}
		if head == nil {
			continue
		}
		c := &cursor{name: name, format: format}
		parser, err := accesslog.New(c.format, rd.options.Log)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.first = firstInstant(head, parser)
		rd.summary.Formats[name] = string(c.format)
		cursors = append(cursors, c)
	}
	slices.SortStableFunc(cursors, func(a, b *cursor) int {
		if a.first < b.first {
			return -1
		} else if a.first > b.first {
			return 1
		}
		return 0
	})
	return cursors, nil
}

// head returns the first lines of a log of which the format can be told, and the format. It returns nothing of a log without a line.
func (rd *reading) head(name string) ([]byte, accesslog.Format, error) {
	const (
		enough = 64 << 10
		most   = 16 // blocks: the first ones may be unreadable
	)
	var unseen atomic.Int64
	f, err := logfile.Open(name, &unseen)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }()
	blocks := logfile.NewBlocks(f)
	unknown := error(nil)
	for range most {
		head, err := blocks.Next(nil)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		if err != nil {
			break
		}
		if end := bytes.LastIndexByte(head[:min(len(head), enough)], '\n'); end >= 0 && len(head) > enough {
			head = head[:end+1] // a line that is longer is looked at with those behind it
		}
		if len(bytes.TrimSpace(head)) == 0 {
			continue
		}
		if rd.options.Format != "" {
			return head, rd.options.Format, nil
		}
		var format accesslog.Format
		if format, unknown = accesslog.Detect(head); unknown == nil {
			return head, format, nil
		}
	}
	if unknown != nil {
		unknown = fmt.Errorf("%s: %w", name, unknown)
	}
	return nil, "", unknown
}

// firstInstant returns the instant of the first line that can be read and counts, or 0.
func firstInstant(head []byte, parser accesslog.Parser) int64 {
	var r accesslog.Record
	var times []int64
	for line := range bytes.Lines(head) {
		if err := parser.Parse(bytes.TrimRight(line, "\r\n"), &r); err == nil || errors.Is(err, accesslog.ErrNoKey) && r.Instant > 0 {
			times = append(times, r.Instant)
		}
	}
	for i, at := range times {
		if !new(order).outlies(at, func() []int64 { return times[i+1:] }) {
			return at
		}
	}
	return 0
}

// work parses blocks until the reading ends.
func (rd *reading) work() {
	w := newWorker(rd.options)
	for {
		select {
		case <-rd.ctx.Done():
			return
		case j := <-rd.jobs:
			b := rd.stock.batch()
			if err := w.parse(j, b); err != nil {
				b.bad = err // look has made the same parser before, so this cannot be
			}
			j.done <- b
		}
	}
}

// open begins to read a log, some batches ahead. It reports false if the log has no request.
func (rd *reading) open(c *cursor) (bool, error) {
	f, err := logfile.Open(c.name, &rd.progress.Bytes)
	if err != nil {
		return false, err
	}
	c.batches = make(chan chan *batch, 2*rd.options.Workers)
	rd.running.Go(func() {
		defer close(c.batches)
		blocks := logfile.NewBlocks(f)
		for {
			block, err := blocks.Next(rd.stock.block())
			if err != nil {
				if err = errors.Join(err, f.Close()); !errors.Is(err, io.EOF) {
					c.failed = fmt.Errorf("%s: %w", c.name, err)
				}
				return
			}
			j := job{block: block, format: c.format, done: make(chan *batch, 1)}
			select {
			case c.batches <- j.done:
			case <-rd.ctx.Done():
				_ = f.Close()
				return
			}
			select {
			case rd.jobs <- j:
			case <-rd.ctx.Done():
				_ = f.Close()
				return
			}
		}
	})
	return rd.advance(c)
}

// advance moves to the next batch that has an arrival. It reports false at the end of the log.
func (rd *reading) advance(c *cursor) (bool, error) {
	for c.batch == nil || c.next == len(c.batch.arrivals) {
		if c.batch != nil {
			rd.stock.put(c.batch)
			c.batch = nil
		}
		if len(c.ahead) > 0 {
			c.batch = c.ahead[0]
			c.ahead = slices.Delete(c.ahead, 0, 1)
		} else {
			var err error
			if c.batch, err = rd.receive(c); c.batch == nil || err != nil {
				return false, err
			}
		}
		c.next = 0
		rd.setAside(c, c.batch)
		rd.count(c)
	}
	return true, nil
}

// receive returns the next batch of a log, or nil at its end.
func (rd *reading) receive(c *cursor) (*batch, error) {
	done, ok := <-c.batches
	if !ok {
		return nil, c.failed
	}
	select {
	case b := <-done:
		return b, nil
	case <-rd.ctx.Done():
		return nil, rd.ctx.Err()
	}
}

// count adds a batch to the summary.
func (rd *reading) count(c *cursor) {
	b, s := c.batch, &rd.summary
	if b.badLine > 0 && s.FirstBad == nil {
		const most = 200
		s.FirstBad = &BadLine{File: c.name, Line: c.lines + b.badLine, Text: string(b.badText[:min(len(b.badText), most)]), Why: b.bad.Error()}
	}
	for address, lines := range b.unread {
		s.unread.add(address, lines)
	}
	c.lines += b.lines
	s.Lines += b.lines
	s.OtherRoute += b.otherRoute
	s.Keyless += b.keyless
	s.Skipped += b.skipped
	s.Whole += b.whole
	s.Arrivals += int64(len(b.arrivals))
	rd.progress.Lines.Add(b.lines)
}

// merge reads the logs in the order of time. A log is opened when the others have come to where it begins.
func (rd *reading) merge(waiting []*cursor) error {
	var open []*cursor
	ahead := int64(len(rd.timeline.slots)) * Second
	for len(open)+len(waiting) > 0 {
		if err := rd.ctx.Err(); err != nil {
			return err
		}
		oldest, bound := choose(open)
		begins := int64(math.MaxInt64) // the next log
		if len(waiting) > 0 {
			begins = waiting[0].first - ahead
		}
		if oldest < 0 || open[oldest].instant() >= begins {
			more, err := rd.open(waiting[0])
			if err != nil {
				return err
			}
			if more {
				open = append(open, waiting[0])
			}
			waiting = waiting[1:]
			continue
		}
		more, err := rd.take(open[oldest], min(bound, begins))
		if err != nil {
			return err
		}
		if !more {
			open = slices.Delete(open, oldest, oldest+1)
		}
	}
	return nil
}

// choose returns the log with the oldest next request, or -1, and the instant of the next request of the others.
func choose(open []*cursor) (oldest int, bound int64) {
	oldest, bound = -1, math.MaxInt64
	first := int64(math.MaxInt64)
	for i, c := range open {
		switch at := c.instant(); {
		case oldest < 0 || at < first:
			oldest, first, bound = i, at, first
		default:
			bound = min(bound, at)
		}
	}
	return oldest, bound
}

// instant returns that of the next request.
func (c *cursor) instant() int64 { return c.batch.arrivals[c.next].Instant }

// take hands over the requests of a log that are not younger than bound, and at least one. It reports whether there are more.
func (rd *reading) take(c *cursor, bound int64) (bool, error) {
	arrivals := c.batch.arrivals
	for first := true; c.next < len(arrivals); first = false {
		a := &arrivals[c.next]
		if a.Instant > bound && !first {
			return true, nil
		}
		rd.summary.First, rd.summary.Last = min(rd.summary.First, a.Instant), max(rd.summary.Last, a.Instant)
		rd.timeline.add(a)
		c.next++
	}
	return rd.advance(c)
}
