package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Close returns when all has ended that was begun before: no settlement, and no charge
// that is given back, is cut off.
func TestCloseDrainsWhatIsNoCheck(t *testing.T) {
	for name, c := range map[string]struct {
		held  string // a word of what the server takes its time for
		begin func(context.Context, *Store) error
	}{
		"a settlement": {"settle", func(ctx context.Context, r *Store) error {
			return r.Settle(ctx, correction("key", hourly, -5))
		}},
		"a reset": {"reset", func(ctx context.Context, r *Store) error { return r.Reset(ctx, "key", []*exact.Spec{hourly}) }},
		"what a denied call gives back": {"n0000000000000000", func(ctx context.Context, r *Store) error {
			asked, err := decide(ctx, r, call.Check{Key: "key", Spec: hourly, Units: 1}, call.Check{Key: "full", Spec: hourly, Units: 1})
			if err == nil && (!asked.Checks[0].Fits || asked.Checks[1].Fits) {
				err = errors.New("want a denial by the second limit")
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				release, done := make(chan struct{}), make(chan error, 1)
				held := 0
				r := wired(t, func(command redis.Cmder) (string, error) {
					switch {
					case word(command, c.held):
						held++
						<-release
						return "0", nil
					case command.Args()[2] == 2:
						return "", errCrossSlot // as a cluster in disguise
					case word(command, "ratelimit:{full}:"+hourly.Label()):
						return "36000000000 0 1700000000000000", nil // it was charged nothing, and so has no number
					}
					return "0 1 1700000000000000", nil
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
				if err := c.begin(t.Context(), r); !errors.Is(err, call.ErrClosed) {
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

// Close waits no longer than a call may take: its time in the queue and the budget.
func TestCloseIsBounded(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		r := wired(t, func(redis.Cmder) (string, error) { return "", nil })
		if err := r.calls.begin(); err != nil { // and it never ends
			t.Fatal(err)
		}
		began := time.Now()
		_ = r.Close()
		if took := time.Since(began); took != 11*time.Hour {
			t.Errorf("Close took %v, want the budget of an hour and ten of them in the queue", took)
		}
	})
}

// clientAt returns a client of an address, of which a function answers all calls. The address is no name,
// since a newer go-redis looks a name up as soon as it makes a client.
func clientAt(t *testing.T, address string, w wire) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	client.AddHook(w)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A server that is met for the first time after Close is not asked.
func TestServerThatIsFoundAfterClose(t *testing.T) {
	answer := func(redis.Cmder) (string, error) { return "0", nil }
	r := wired(t, answer)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s := r.serverAt(clientAt(t, "10.0.0.1:6379", answer))
	if err := s.checks.Do(t.Context(), s.checks.NewCall()); !errors.Is(err, call.ErrClosed) {
		t.Errorf("a check after Close: %v", err)
	}
	if err := s.settlements.Do(t.Context(), s.settlements.NewCall()); !errors.Is(err, call.ErrClosed) {
		t.Errorf("a settlement after Close: %v", err)
	}
}

// Nodes of a cluster come and go. Those that are asked are kept, and so is one that is answering.
func TestServersThatAreGoneAreForgotten(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		answer := func(redis.Cmder) (string, error) { return "0", nil }
		r := wired(t, answer)
		known := func() (n int) {
			r.servers.byAddress.Range(func(any, any) bool { n++; return true })
			return n
		}
		at := func(address string) *server { return r.serverAt(clientAt(t, address, answer)) }
		release := make(chan struct{})
		slow := clientAt(t, "10.0.0.1:6379", func(redis.Cmder) (string, error) { <-release; return "0", nil })
		steady, busy := at("10.0.0.2:6379"), r.serverAt(slow)
		done := make(chan error, 1)
		go func() { done <- busy.checks.Do(t.Context(), busy.checks.NewCall()) }()
		synctest.Wait()
		const rounds = 200
		for i := range rounds {
			for j := range 3 {
				at(fmt.Sprintf("10.1.%d.%d:6379", i, j))
			}
			if at("10.0.0.2:6379") != steady {
				t.Fatal("a server that is asked all the time was forgotten")
			}
			time.Sleep(forgotten)
		}
		if n := known(); n > 2+3*3 {
			t.Errorf("%d servers are known, of %d that have been", n, 3*rounds)
		}
		if r.serverAt(slow) != busy {
			t.Error("a server that is answering was forgotten")
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		// Many that are new at once are all kept.
		time.Sleep(forgotten)
		before := known()
		for i := range 100 {
			at(fmt.Sprintf("10.2.0.%d:6379", i))
		}
		if n := known(); n < 100 || n > before+100 {
			t.Errorf("%d servers are known after %d and 100 new ones", n, before)
		}
	})
}
