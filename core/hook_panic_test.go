package core_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// hookWork is what calls a function of a Trace. Each gets options with a trace whose function panics, and a logger that
// panics, too.
var hookWork = map[string]func(t *testing.T, options ...core.Option){
	"Batch": func(t *testing.T, options ...core.Option) {
		limiter := core.New(core.NewRedis(redistest.Start(t).Client(t), append(options, core.WithBudget(patient))...))
		ask(t, limiter)("key", core.Leaky(9, core.PerHour(1)), 1)
		if d := ask(t, limiter)("key", core.Leaky(9, core.PerHour(1)), 1); d.Remaining != 7 {
			t.Errorf("%+v, want 7 left", d)
		}
		_ = limiter.Close()
	},
	"Breaker": func(t *testing.T, options ...core.Option) {
		server := redistest.Start(t)
		client := server.Client(t, func(o *redis.Options) { o.MaxRetries, o.ContextTimeoutEnabled = -1, true })
		limiter := core.New(core.NewRedis(client, append(options, core.WithBudget(patient), core.WithBreaker(1, time.Millisecond))...))
		redistest.SetUser(t, server.Client(t), "default", "-evalsha")
		if _, err := limiter.Allow(t.Context(), "key", core.Leaky(9, core.PerHour(1))); err == nil {
			t.Error("a server that forbids scripts has answered")
		}
		redistest.SetUser(t, server.Client(t), "default", "+evalsha")
		for deadline := time.Now().Add(patient); ; {
			if _, err := limiter.Allow(t.Context(), "key", core.Leaky(9, core.PerHour(1))); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		_ = limiter.Close()
	},
	"Repeated": func(t *testing.T, options ...core.Option) {
		allow := ask(t, core.New(denialcache.New(core.NewMemory(), 10, options...)))
		for i := range 3 {
			if d := allow("key", core.FixedWindow(1, time.Hour), 1); d.Allowed != (i == 0) {
				t.Errorf("call %d: %+v", i, d)
			}
		}
	},
	"Wait": func(t *testing.T, options ...core.Option) {
		limiter := core.New(core.NewMemory(), options...)
		for range 2 {
			if err := limiter.Wait(t.Context(), "key", core.Leaky(2, core.PerHour(1))); err != nil {
				t.Error(err)
			}
		}
	},
	"Waiting": func(t *testing.T, options ...core.Option) { usePlace(t, core.New(core.NewMemory(), options...)) },
	"Held":    func(t *testing.T, options ...core.Option) { usePlace(t, core.New(core.NewMemory(), options...)) },
	"Renewal": func(t *testing.T, options ...core.Option) {
		bubbletest.Run(t, func(t *testing.T) {
			limiter := core.New(core.NewMemory(), options...)
			permit := acquire(t, limiter, "key", single)
			time.Sleep(10 * time.Minute)
			if err := permit.Err(); err != nil {
				t.Error(err)
			}
			permit.Release()
			_ = limiter.Close()
		})
	},
	"Reclaimed": func(t *testing.T, options ...core.Option) {
		now := time.Now()
		clock := core.WithClock(func() time.Time { return now })
		store := core.NewRedis(redistest.Start(t).Client(t), append(options, core.WithBudget(patient), clock)...)
		for range 2 {
			if _, err := decideWith(t.Context(), store, core.Check{Key: "key", Limit: single}); err != nil {
				t.Error(err)
			}
			now = now.Add(time.Hour)
		}
		_ = store.Close()
	},
	"Decided": func(t *testing.T, options ...core.Option) {
		allow := ask(t, core.New(core.NewMemory(), options...))
		for i := range 3 {
			if d := allow("key", core.FixedWindow(2, time.Hour), 1); d.Allowed != (i < 2) {
				t.Errorf("call %d: %+v", i, d)
			}
		}
	},
	"Leased": func(t *testing.T, options ...core.Option) {
		bubbletest.Run(t, func(t *testing.T) {
			limiter := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 0.1}, options...))
			allow := ask(t, limiter)
			for range 2000 {
				allow("key", core.TokenBucket(1000, core.PerSecond(1000)), 1)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Minute)
			_ = limiter.Close()
		})
	},
}

var single = core.Concurrent(1, 30*time.Second)

// usePlace takes a place and gives it back, twice.
func usePlace(t *testing.T, l *core.Limiter) {
	t.Helper()
	for range 2 {
		acquire(t, l, "key", single).Release()
	}
	_ = l.Close()
}

// A function of a trace that panics changes nothing, nor does a logger that is told of it: on a goroutine of the caller's
// as on one of the store's.
func TestATraceThatPanicsChangesNothing(t *testing.T) {
	fields := reflect.TypeFor[core.Trace]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		for _, logs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the logger panics: %t", name, logs), func(t *testing.T) {
				work := hookWork[name]
				if work == nil {
					t.Fatal("a new function of Trace needs a test that panics in it")
				}
				var calls atomic.Int32
				var trace core.Trace
				f := reflect.ValueOf(&trace).Elem().Field(i)
				f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
					calls.Add(1)
					panic("a hook")
				}))
				journal := new(journal)
				var handler slog.Handler = slog.NewTextHandler(journal, nil)
				if logs {
					handler = panickingHandler{handler}
				}
				work(t, core.WithTrace(trace), core.WithLogger(slog.New(handler)))
				// A batch is told of when its calls have their answers: maybe a moment after the store is closed.
				for deadline := time.Now().Add(patient); journal.count("hook="+name) == 0; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("called %d times, and the log is %s", calls.Load(), journal)
					}
				}
			})
		}
	}
}
