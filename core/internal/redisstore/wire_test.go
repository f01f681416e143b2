package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// wire is a server as a client's hook: it answers without a network.
type wire func(command redis.Cmder) (reply string, err error)

func (w wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w wire) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error { return w.answer(ctx, command) }
}

func (w wire) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) (err error) {
		for _, command := range commands {
			err = errors.Join(err, w.answer(ctx, command))
		}
		return err
	}
}

func (w wire) answer(ctx context.Context, command redis.Cmder) error {
	if command.Name() == "time" { // a connection is opened
		return nil
	}
	reply, err := w(command)
	if arguments := command.Args(); reply != "" && asString(arguments[len(arguments)-1]) == "at" && !strings.Contains(reply, instant) {
		reply += " " + instant
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if text, ok := command.(*redis.StringCmd); ok {
		text.SetVal(reply)
	}
	command.SetErr(err)
	return err
}

// instant is when a wire decides, in its replies.
const instant = "1700000000000000"

// wired returns a store whose server is a function.
func wired(t *testing.T, w wire, change ...func(*Config)) *Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                  "192.0.2.1:6379", // an address, so that nobody looks up a name
		ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("there is no network")
		},
	})
	client.AddHook(w)
	t.Cleanup(func() { _ = client.Close() })
	return newStore(client, change...)
}

// newStore returns a store on a client, with time to answer.
func newStore(client redis.UniversalClient, change ...func(*Config)) *Store {
	config := Config{
		Client: client, HeedsDeadline: true, Prefix: "ratelimit", Budget: time.Hour, InFlight: 2, MostWaiting: 1000,
		Logger: func() *slog.Logger { return slog.New(slog.DiscardHandler) },
	}
	for _, one := range change {
		one(&config)
	}
	return New(config)
}

// breaks has a server suspended for an hour when it has failed so often.
func breaks(failures int) func(*Config) {
	return func(c *Config) { c.BreakerFailures, c.BreakerPause = failures, time.Hour }
}

// spec returns the spec of a limit in tests.
func spec(algorithm exact.Algorithm, capacity, events int, period time.Duration) *exact.Spec {
	if algorithm.Dated() {
		return exact.NewSpec(exact.CalendarParams(capacity, calendar.Period{Unit: calendar.Step, Step: max(time.Second, period)}), nil)
	}
	return exact.NewSpec(exact.Params{Algorithm: algorithm, Capacity: capacity, Events: events, Period: period}, nil)
}

// hourly is a leaky bucket of ten that drains one an hour.
var hourly = spec(exact.Leaky, 10, 1, time.Hour)

// callOf returns a call of some checks.
func callOf(checks ...call.Check) *call.Call {
	c := new(call.Call)
	c.Set(len(checks), func(place int, own *call.Check) { *own = checks[place] })
	return c
}

// maySettle says that a call may be settled.
func maySettle(c *call.Call) {
	c.Settled = true
	call.MaySettle(c.Checks)
}

// decide decides a call of some checks.
func decide(ctx context.Context, r *Store, checks ...call.Check) (*call.Call, error) {
	c := callOf(checks...)
	_, err := r.Decide(ctx, []*call.Call{c})
	return c, err
}

// correction changes what a key was charged, whenever that was.
func correction(key string, spec *exact.Spec, events int) []call.Correction {
	return []call.Correction{{Correction: exact.Correction{Events: events}, Key: key, Spec: spec}}
}

// A hook of the client that panics fails what it was called for, in whatever goroutine.
func TestHookThatPanicsFailsTheCall(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		r := wired(t, func(redis.Cmder) (string, error) { panic("hook") }, func(c *Config) { c.HeedsDeadline = heeds })
		for name, do := range map[string]func() error{
			"Decide": func() error {
				_, err := decide(t.Context(), r, call.Check{Key: "key", Spec: hourly, Units: 1})
				return err
			},
			"Settle": func() error { return r.Settle(t.Context(), correction("key", hourly, -1)) },
			"Reset":  func() error { return r.Reset(t.Context(), "key", []*exact.Spec{hourly}) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "panicked: hook") {
				t.Errorf("%s: %v, want the panic's error", name, err)
			}
		}
	}
}

// word reports whether a command has a word.
func word(command redis.Cmder, want string) bool {
	return slices.ContainsFunc(command.Args(), func(arg any) bool { return asString(arg) == want })
}

// errCrossSlot is what a cluster replies to a command with keys of several slots.
var errCrossSlot = proto("CROSSSLOT Keys in request don't hash to the same slot")

type proto string

func (p proto) Error() string { return string(p) }
func (proto) RedisError()     {}

// What a denied call was charged is given back even if its caller has gone.
func TestGiveBackForACallerWhoHasGone(t *testing.T) {
	given := 0
	r := wired(t, func(command redis.Cmder) (string, error) {
		if word(command, "settle") {
			given++
		}
		return "0", nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log warnings
	r.Logger = func() *slog.Logger { return slog.New(&log) }
	r.giveBack(ctx, callOf(call.Check{Key: "key", Spec: hourly, Units: 3}).Groups[0])
	if given != 1 || log != 0 {
		t.Errorf("given back %d times with %d warnings, want once without", given, log)
	}
}

// warnings counts what is logged.
type warnings int

func (n *warnings) Enabled(context.Context, slog.Level) bool  { return true }
func (n *warnings) Handle(context.Context, slog.Record) error { *n++; return nil }
func (n *warnings) WithAttrs([]slog.Attr) slog.Handler        { return n }
func (n *warnings) WithGroup(string) slog.Handler             { return n }

// That a caller gives a settlement up is no fault of the server.
func TestBreakerIgnoresSettlementsThatAreGivenUp(t *testing.T) {
	r := wired(t, func(redis.Cmder) (string, error) { return "0", nil }, breaks(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		err := r.Settle(ctx, correction("key", hourly, 1))
		if call.FailureOf(err) != call.GivenUp || !errors.Is(err, call.ErrNotDone) {
			t.Errorf("error %v, want %s", err, call.GivenUp)
		}
	}
	if _, err := decide(t.Context(), r, call.Check{Key: "key", Spec: hourly, Units: 1}); err != nil {
		t.Error(err)
	}
}

// A settlement that is not answered counts against the server; one that is refused does not, since
// checks may be permitted.
func TestBreakerCountsSettlements(t *testing.T) {
	refuses := true
	r := wired(t, func(redis.Cmder) (string, error) {
		if refuses {
			return "", proto("NOPERM")
		}
		return "", io.EOF
	}, breaks(2))
	for i, want := range []call.Failure{call.NotPermitted, call.NotPermitted, call.NotPermitted, call.Unreachable, call.Unreachable, call.Suspended} {
		refuses = i < 3
		err := r.Settle(t.Context(), correction("key", hourly, 1))
		if call.FailureOf(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// That keys cannot share a call is found out once.
func TestClusterInDisguiseIsRemembered(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		hold, packed := make(chan struct{}), 0
		r := wired(t, func(command redis.Cmder) (string, error) {
			if command.Args()[2] != 1 {
				packed++
				return "", errCrossSlot
			}
			<-hold
			return "0", nil
		})
		for range 3 {
			hold = make(chan struct{})
			errs := make(chan error, 7)
			for i := range cap(errs) {
				go func() {
					_, err := decide(t.Context(), r, call.Check{Key: string(rune('a' + i)), Spec: hourly, Units: 1})
					errs <- err
				}()
				synctest.Wait()
			}
			close(hold)
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
		}
		if packed != 1 {
			t.Errorf("%d calls were packed, want one to find out", packed)
		}
		_ = r.Close()
	})
}

// A batch is told the instant of its decision, so that what a caller who leaves was charged can be
// given back. A call that its caller sends asks for it only if that is wanted, and a reservation is told it anyway.
func TestWhoIsToldTheInstant(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		hold := make(chan struct{})
		close(hold)
		var mu sync.Mutex
		told := make(map[string]bool) // by the keys of a batch
		client := clientAt(t, "192.0.2.1:6379", func(command redis.Cmder) (string, error) {
			arguments := command.Args()
			keys := arguments[2].(int)
			<-hold
			var names []string
			for _, key := range arguments[3 : 3+keys] {
				names = append(names, strings.FieldsFunc(key.(string), func(c rune) bool { return c == '{' || c == '}' })[1])
			}
			mu.Lock()
			defer mu.Unlock()
			told[strings.Join(names, ", ")] = asString(arguments[len(arguments)-1]) == "at"
			if names[0] == "wants-to-know" {
				return "0 1 1700000000000000", nil // with the number of what was charged, and the instant, which this script always tells
			}
			return strings.Repeat("0 ", keys)[:2*keys-1], nil
		})
		r := newStore(client)
		ask := func(key string) {
			if _, err := decide(t.Context(), r, call.Check{Key: key, Spec: hourly, Units: 1}); err != nil {
				t.Error(err)
			}
		}
		ask("by-a-worker")
		synctest.Wait() // it is counted out after its calls have been answered
		ask("alone")
		settled := callOf(call.Check{Key: "wants-to-know", Spec: hourly, Units: 1})
		maySettle(settled)
		if _, err := r.Decide(t.Context(), []*call.Call{settled}); err != nil || settled.Checks[0].Charged.At != 1700000000000000 {
			t.Fatalf("%v, %v", settled.Checks[0].Charged, err)
		}
		hold = make(chan struct{})
		var group sync.WaitGroup
		for _, key := range []string{"first", "second", "third", "fourth"} { // two are in flight, and two wait for them
			group.Go(func() { ask(key) })
			synctest.Wait()
		}
		close(hold)
		group.Wait()
		_ = r.Close()
		want := map[string]bool{"by-a-worker": true, "alone": false, "wants-to-know": false, "first": false, "second": true, "third, fourth": true}
		if !maps.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

func asString(argument any) string {
	if text, ok := argument.(fmt.Stringer); ok {
		return text.String()
	}
	text, _ := argument.(string)
	return text
}

// The error of a call says whether the budget or the caller's context ended.
func TestExplain(t *testing.T) {
	r := wired(t, func(redis.Cmder) (string, error) { return "", nil }, func(c *Config) { c.Budget = time.Second })
	gone, leave := context.WithCancelCause(t.Context())
	leave(errors.New("client gone"))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	slow := &net.OpError{Op: "read", Err: timeout{}}
	for name, c := range map[string]struct {
		asked, bounded context.Context //nolint:containedctx // it is what the case is about
		err            error
		kind           call.Failure
		text           string
	}{
		"the caller has left":     {gone, gone, slow, call.GivenUp, "core: the call was given up: client gone"},
		"the context's deadline":  {t.Context(), t.Context(), context.DeadlineExceeded, call.TimedOut, "core: redis has not answered within 1s: context deadline exceeded"},
		"the socket's deadline":   {t.Context(), t.Context(), slow, call.TimedOut, "core: redis has not answered within 1s: context deadline exceeded: read: late"},
		"an error after the time": {t.Context(), late, errors.New("odd"), call.TimedOut, "core: redis has not answered within 1s: context deadline exceeded: odd"},
		"an error in time":        {t.Context(), t.Context(), errors.New("odd"), call.Other, "core: redis: odd"},
	} {
		err := r.Explain(c.asked, c.bounded, c.err)
		if call.FailureOf(err) != c.kind || err.Error() != c.text {
			t.Errorf("%s: %s, %q, want %s, %q", name, call.FailureOf(err), err, c.kind, c.text)
		}
		if (c.kind == call.TimedOut) != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v is, or is not, context.DeadlineExceeded", name, err)
		}
	}
	if err := r.Explain(gone, gone, nil); err != nil {
		t.Errorf("an answer is explained as %v", err)
	}
}

type timeout struct{}

func (timeout) Error() string   { return "late" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
