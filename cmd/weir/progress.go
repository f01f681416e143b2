package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// progress tells on a terminal how far the reading is.
type progress struct {
	w     io.Writer
	total int64 // bytes of all passes
	start time.Time
	end   func()

	mu     sync.Mutex
	doing  string
	passes []*arrival.Progress
}

// newProgress returns a progress that is told twice a second, if it is shown.
func newProgress(w io.Writer, show bool, total int64) *progress {
	p := &progress{w: w, total: total, start: time.Now(), end: func() {}}
	if !show {
		return p
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = fmt.Fprintf(p.w, "\r%s\x1b[K", p)
			case <-done:
				_, _ = fmt.Fprint(p.w, "\r\x1b[K")
				return
			}
		}
	})
	p.end = sync.OnceFunc(func() { close(done); running.Wait() })
	return p
}

// reading begins a pass over the logs.
func (p *progress) reading(doing string) *arrival.Progress {
	pass := new(arrival.Progress)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = doing
	p.passes = append(p.passes, pass)
	return pass
}

// String returns the line that is shown.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bytes, lines int64
	for _, pass := range p.passes {
		bytes += pass.Bytes.Load()
		lines += pass.Lines.Load()
	}
	rate := float64(lines) / 1e6 / time.Since(p.start).Seconds()
	return fmt.Sprintf("%3d %% %s: %.1f million lines, %.1f million a second", 100*bytes/max(p.total, 1), p.doing, float64(lines)/1e6, rate)
}

func (p *progress) stop() { p.end() }

// isTerminal reports whether a file is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
