package core

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// wire is a server as a client's hook: it answers without a network.
type wire func(command redis.Cmder) (reply string, err error)

func (w wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w wire) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error { return w.answer(command) }
}

func (w wire) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) (err error) {
		for _, command := range commands {
			err = errors.Join(err, w.answer(command))
		}
		return err
	}
}

func (w wire) answer(command redis.Cmder) error {
	reply, err := w(command)
	if text, ok := command.(*redis.StringCmd); ok {
		text.SetVal(reply)
	}
	command.SetErr(err)
	return err
}

// wired returns a store whose server is a function.
func wired(t *testing.T, w wire, options ...RedisOption) *Redis {
	t.Helper()
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no network")
	}})
	client.AddHook(w)
	t.Cleanup(func() { _ = client.Close() })
	return NewRedis(client, append([]RedisOption{WithBudget(time.Hour), WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
}

// word reports whether a command has a word.
func word(command redis.Cmder, want string) bool {
	return slices.ContainsFunc(command.Args(), func(arg any) bool { text, ok := arg.(string); return ok && text == want })
}

// errCrossSlot is what a cluster replies to a command with keys of several slots.
var errCrossSlot = proto("CROSSSLOT Keys in request don't hash to the same slot")

type proto string

func (p proto) Error() string { return string(p) }
func (proto) RedisError()     {}

// Close returns when all has ended that was begun before: no settlement, and no charge
// that is given back, is cut off.
func TestCloseDrainsWhatIsNoQuestion(t *testing.T) {
	limit := Leaky(10, PerHour(1))
	for name, c := range map[string]struct {
		held  string // what the server takes its time for
		begin func(context.Context, *Redis) error
	}{
		"a settlement": {"settle", func(ctx context.Context, r *Redis) error {
			return r.Settle(ctx, []Settlement{{Check: Check{Key: "key", Limit: limit, Cost: 5}}})
		}},
		"a reset": {"reset", func(ctx context.Context, r *Redis) error { return r.Reset(ctx, "key", []Limit{limit}) }},
		"what a refused question gives back": {"firm", func(ctx context.Context, r *Redis) error {
			checks := []Check{{Key: "key", Limit: limit, Cost: 1}, {Key: "full", Limit: limit, Cost: 1}}
			decisions := make([]Decision, 2)
			err := r.Decide(ctx, checks, decisions)
			if err == nil && (!decisions[0].Allowed || decisions[1].Allowed) {
				err = errors.New("want a refusal by the second limit")
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, done := make(chan struct{}), make(chan error, 1)
				held := 0
				r := wired(t, func(command redis.Cmder) (string, error) {
					switch {
					case word(command, c.held):
						held++
						<-release
						return "", nil
					case command.Args()[2] == 2:
						return "", errCrossSlot // as a cluster in disguise
					case word(command, "ratelimit:{full}:"+limit.Name()):
						return "36000000000 1700000000000000", nil
					}
					return "0 1700000000000000", nil
				})
				go func() { done <- c.begin(t.Context(), r) }()
				synctest.Wait()
				if held != 1 {
					t.Fatalf("%d calls are held, want 1", held)
				}
				closed := make(chan struct{})
				go func() { _ = r.Close(); close(closed) }()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("Close has not waited")
				default:
				}
				if err := c.begin(t.Context(), r); !errors.Is(err, errClosed) {
					t.Errorf("begun after Close: %v", err)
				}
				close(release)
				if err := <-done; err != nil {
					t.Error(err)
				}
				<-closed
				_ = r.Close() // again
			})
		})
	}
}

func TestCloseGivesSettlementsNoMoreThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := wired(t, func(redis.Cmder) (string, error) { <-release; return "", nil })
		go func() {
			_ = r.Settle(t.Context(), []Settlement{{Check: Check{Key: "key", Limit: Leaky(10, PerHour(1)), Cost: 5}}})
		}()
		synctest.Wait()
		began := time.Now()
		_ = r.Close()
		if took := time.Since(began); took != time.Hour {
			t.Errorf("Close took %v, want the budget of an hour", took)
		}
		close(release)
		synctest.Wait()
	})
}

// A server that is met for the first time after Close is not asked.
func TestServerThatIsFoundAfterClose(t *testing.T) {
	r := wired(t, func(redis.Cmder) (string, error) { return "0", nil })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f := r.flightsAt("10.0.0.1:6379")
	if err := f.ask(t.Context(), f.newRequest()); !errors.Is(err, errClosed) {
		t.Errorf("asked after Close: %v", err)
	}
}

// Nodes of a cluster come and go. Those that are asked are kept, and so is one that has
// something in the air.
func TestServersThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wired(t, func(redis.Cmder) (string, error) { return "0", nil })
		known := func() (n int) {
			r.servers.Range(func(any, any) bool { n++; return true })
			return n
		}
		steady, busy := r.flightsAt("steady:6379"), r.flightsAt("busy:6379")
		busy.inAir++
		for i := range 1000 {
			for j := range 3 {
				r.flightsAt(strings.Repeat("x", 3*i+j) + ":6379")
			}
			if r.flightsAt("steady:6379") != steady {
				t.Fatal("a server that is asked all the time was forgotten")
			}
			time.Sleep(forgotten)
		}
		if n := known(); n > 2+3*3 {
			t.Errorf("%d servers are known, of 3000 that have been", n)
		}
		if r.flightsAt("busy:6379") != busy {
			t.Error("a server with something in the air was forgotten")
		}
		busy.inAir--
		// Many that are new at once are all kept.
		time.Sleep(forgotten)
		before := known()
		for i := range 100 {
			r.flightsAt(strings.Repeat("y", i+1) + ":6379")
		}
		if n := known(); n < 100 || n > before+100 {
			t.Errorf("%d servers are known after %d and 100 new ones", n, before)
		}
	})
}
