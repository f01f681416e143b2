package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// balance adds up what Trace.Held tells.
type balance struct {
	mu    sync.Mutex
	units int
	told  []core.Held
}

func (b *balance) held(h core.Held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.units += h.Units
	b.told = append(b.told, h)
}

func (b *balance) want(t *testing.T, units, told int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.units != units || len(b.told) != told {
		t.Errorf("%d units after %v, want %d after %d", b.units, b.told, units, told)
	}
}

// journal is what a limiter logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(text string) int { return strings.Count(j.String(), text) }

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// forget takes a place, and forgets it.
func forget(t *testing.T, l *core.Limiter) {
	t.Helper()
	if p := acquire(t, l, "tenant", exports); p.Err() != nil {
		t.Fatal(p.Err())
	}
}

// A permit that nobody can release any more is given back when its lease is due. That is logged once and told, and its
// waiters are woken. The permits of others are renewed.
func TestForgottenPermitIsGivenBack(t *testing.T) {
	for name, panics := range map[string]bool{"": false, "with hooks that panic": true} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				memory, journal, balance := core.NewMemory(), new(journal), new(balance)
				logger := slog.New(slog.NewTextHandler(journal, nil))
				trace := core.Trace{Held: func(h core.Held) {
					balance.held(h)
					if panics {
						panic("a hook")
					}
				}, Renewal: func(core.Renewal) {
					if panics {
						panic("a hook")
					}
				}}
				if panics {
					logger = slog.New(panickingHandler{logger.Handler()})
				}
				l := core.New(memory, core.WithTrace(trace), core.WithLogger(logger))
				defer l.Close()
				kept := acquire(t, l, "tenant", exports)
				forget(t, l)
				runtime.GC()
				runtime.GC()
				balance.want(t, 2, 2)
				next, err := l.Acquire(t.Context(), "tenant", exports, core.WithLongestWait(15*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				balance.want(t, 2, 4)
				time.Sleep(10 * time.Minute)
				if kept.Err() != nil || next.Err() != nil {
					t.Errorf("others have lost their places: %v, %v", kept.Err(), next.Err())
				}
				kept.Release()
				next.Release()
				balance.want(t, 0, 6)
				if n := journal.count("forgotten"); n != 1 || journal.count("\n") != 1+journal.count("a trace or a logger panicked") {
					t.Errorf("it was logged %d times, in %s", n, journal)
				}
			})
		})
	}
}

// Where all places are lost at once, the log does not get a line for each of them.
func TestManyLostPlacesAreLoggedOnce(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		journal := new(journal)
		l := core.New(core.NewMemory(), core.WithLogger(slog.New(slog.NewTextHandler(journal, nil))))
		defer l.Close()
		many := core.Concurrent(500, 10*time.Second).Named("many")
		permits := make([]*core.Permit, 500)
		for i := range permits {
			permits[i] = acquire(t, l, "tenant", many)
		}
		if err := l.Reset(t.Context(), "tenant", many); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		for _, p := range permits {
			if p.Err() == nil {
				t.Fatal("a place was kept")
			}
		}
		if n := journal.count("was lost"); n != 1 {
			t.Errorf("%d lines, want 1", n)
		}
		time.Sleep(10 * time.Second)
		again := acquire(t, l, "tenant", many)
		if err := l.Reset(t.Context(), "tenant", many); err != nil {
			t.Fatal(err)
		}
		<-again.Context().Done()
		synctest.Wait()
		if journal.count("was lost") != 2 || journal.count("unlogged=499") != 1 {
			t.Errorf("the log does not tell of the others: %s", journal)
		}
		again.Release()
		for _, p := range permits {
			p.Release()
		}
	})
}

// panickingHandler is a handler that panics after it has logged.
type panickingHandler struct{ slog.Handler }

func (h panickingHandler) Handle(ctx context.Context, r slog.Record) error {
	_ = h.Handler.Handle(ctx, r)
	panic("a logger")
}

// Hooks may call the limiter, whatever it is just doing.
func TestHooksMayCallTheLimiter(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &failing{Store: core.NewMemory()}
		var l *core.Limiter
		imports := core.Concurrent(100, 30*time.Second).Named("imports")
		inside := make(chan struct{}, 1)
		calls := func() {
			select {
			case inside <- struct{}{}: // its own calls are told, too
				defer func() { <-inside }()
			default:
				return
			}
			p, err := l.TryAcquire(context.Background(), "hook", imports)
			if err != nil {
				return // the store is away
			}
			p.Release()
			if r, err := l.Reserve(context.Background(), core.Check{Key: "hook", Limit: imports}); err == nil {
				_ = r.SettleLater(0)
			}
			_, _ = l.TryAcquire(context.Background(), "tenant", exports)
		}
		l = core.New(s, core.WithTrace(core.Trace{
			Held: func(core.Held) { calls() }, Renewal: func(core.Renewal) { calls() }, Wait: func(core.Wait) { calls() },
		}))
		for range 3 {
			r, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: core.Concurrent(9, time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if err := r.SettleLater(0); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		_ = l.Close()
	})
}

// What is told to be taken is told to be given back, however it comes to its end.
func TestHeldPlacesAddUp(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		balance := new(balance)
		s := &failing{Store: core.NewMemory()}
		l := core.New(s, core.WithTrace(core.Trace{Held: balance.held}))
		acquire(t, l, "tenant", exports).Release()
		balance.want(t, 0, 2)
		r, err := l.Reserve(t.Context(),
			core.Check{Key: "tenant", Limit: exports, Cost: 2}, core.Check{Key: "tenant", Limit: exports, Cost: 2, Shadow: true},
			core.Check{Key: "other", Limit: exports}, core.Check{Key: "third", Limit: exports, Mode: core.Look})
		if err != nil || !r.Allowed() {
			t.Fatal(err)
		}
		balance.want(t, 3, 4)
		if err := r.SettleLater(0, 0, 0, 0); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		balance.want(t, 0, 6)

		// A call that another limit denies takes none.
		full := core.Leaky(1, core.PerHour(1))
		for range 2 {
			r, err = l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: full}, core.Check{Key: "tenant", Limit: exports})
			if err != nil {
				t.Fatal(err)
			}
			if p := r.Permit(t.Context()); p != nil {
				p.Release()
			}
		}
		if r.Allowed() || r.Permit(t.Context()) != nil {
			t.Error("a denied call has a permit")
		}
		balance.want(t, 0, 8)

		// A waiter that leaves just when it is granted a place.
		one, two := acquire(t, l, "tenant", exports), acquire(t, l, "tenant", exports)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if p, err := l.Acquire(ctx, "tenant", exports); err == nil {
				p.Release()
			}
		})
		synctest.Wait()
		group.Go(cancel)
		group.Go(one.Release)
		group.Wait()
		two.Release()
		synctest.Wait()
		balance.want(t, 0, len(balance.told))
		free(t, s.Store, "tenant", exports, 0)

		// A place that was lost is told when it is given back, with the reason.
		lost := acquire(t, l, "tenant", exports)
		if err := l.Reset(t.Context(), "tenant", exports); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if lost.Err() == nil {
			t.Error("a place that was taken away is believed to be held")
		}
		lost.Release()
		if last := balance.told[len(balance.told)-1]; last.Err == nil || last.Units != -1 {
			t.Errorf("told %+v", last)
		}
		balance.want(t, 0, len(balance.told))
		_ = l.Close()
	})
}
