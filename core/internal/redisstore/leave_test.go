package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// What was granted of a call that is asked several times, or of several calls, is given back in one
// settlement when its caller has left.
func TestWhatWasGrantedInAllIsGivenBackAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		calls []*call.Call
		want  int64 // units of an hour in microseconds
	}{
		"several times":              {[]*call.Call{severalTimes(7)}, -7},
		"more times than fit":        {[]*call.Call{severalTimes(1_000_000)}, -10},
		"calls of one cost":          {[]*call.Call{callFor(2), callFor(2), callFor(2)}, -6},
		"calls of different costs":   {[]*call.Call{callFor(1), callFor(5), callFor(3)}, -9},
		"calls of which some do fit": {[]*call.Call{callFor(4), callFor(5), callFor(3)}, -9},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				hold := make(chan struct{})
				var settled []any
				r := wired(t, func(command redis.Cmder) (string, error) {
					if word(command, "settle") {
						settled = append(settled, command.Args()[5]) // behind a key and the limit
						return "0", nil
					}
					<-hold
					return "0", nil
				}, func(c *Config) { c.InFlight = 1 })
				first := make(chan error, 1)
				go func() {
					_, err := decide(t.Context(), r, call.Check{Key: "other", Spec: hourly, Units: 1})
					first <- err
				}()
				synctest.Wait()
				leaveInFlight(t, r, c.calls, func() { hold <- struct{}{} }) // they have waited for a worker to send them
				close(hold)
				time.Sleep(time.Second)
				_ = r.Close()
				if err := <-first; err != nil {
					t.Error(err)
				}
				if want := []any{c.want * time.Hour.Microseconds()}; !slices.Equal(settled, want) {
					t.Errorf("settled %v, want %v", settled, want)
				}
			})
		})
	}
}

// Calls that are settled by themselves have notes of their own, and are given back one by one.
func TestNotedCallsAreGivenBackOneByOne(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		hold := make(chan struct{})
		var settled [][2]any
		asked := false
		r := wired(t, func(command redis.Cmder) (string, error) {
			if asked {
				settled = append(settled, [2]any{command.Args()[11], command.Args()[12]})
				return "0", nil
			}
			asked = true
			<-hold
			return "0 7", nil // before the first one, which has this number
		}, func(c *Config) { c.InFlight = 1 })
		var calls []*call.Call
		for _, units := range []int{1, 5, 3, 2} { // the last one does not fit
			calls = append(calls, callOf(call.Check{Key: "key", Spec: hourly, Units: units, Settled: true}))
		}
		leaveInFlight(t, r, calls, func() {})
		close(hold)
		time.Sleep(time.Second)
		_ = r.Close()
		hour := time.Hour.Microseconds()
		if got, want := fmt.Sprint(settled), fmt.Sprint([][2]int64{{-hour, 7}, {-5 * hour, 8}, {-3 * hour, 9}}); got != want {
			t.Errorf("settled %s, want the units and the numbers %s", got, want)
		}
	})
}

// leaveInFlight makes calls, and has their caller leave when they are in flight: send has them sent.
func leaveInFlight(t *testing.T, r *Store, calls []*call.Call, send func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := r.Decide(ctx, calls); left <- err }()
	synctest.Wait()
	send()
	synctest.Wait()
	leave()
	if err := <-left; call.FailureOf(err) != call.GivenUp {
		t.Errorf("the caller who leaves: %v", err)
	}
}

// callFor returns a call that asks for some units.
func callFor(units int) *call.Call { return callOf(call.Check{Key: "key", Spec: hourly, Units: units}) }

// severalTimes returns a call for a unit that is asked so many times.
func severalTimes(times int) *call.Call {
	c := callFor(1)
	c.Times = times
	return c
}

// A waiter that has left while it was registered is registered no longer when that is known, under the instant that Redis tells.
func TestAWaiterThatHasLeftIsForgotten(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limit := spec(exact.Concurrent, 1, 1, time.Minute)
		hold := make(chan struct{})
		var left []string
		r := wired(t, func(command redis.Cmder) (string, error) {
			if word(command, "leave") {
				left = append(left, fmt.Sprint(command.Args()...))
				return "0", nil
			}
			<-hold
			return "1 60000000 60000000 1000000000000042", nil
		}, func(c *Config) { c.InFlight = 1 })
		go func() {
			_, _ = decide(t.Context(), r, call.Check{Key: "other", Spec: limit, Units: 1, Holder: call.NewHolder()})
		}()
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // which waits for a worker to send it
			check := call.Check{Key: "key", Spec: limit, Units: 1, Holder: call.NewHolder(), Waiter: &call.Waiter{ID: "process-1", Age: 5}}
			_, err := decide(ctx, r, check)
			ended <- err
		}()
		synctest.Wait()
		hold <- struct{}{}
		synctest.Wait()
		leave()
		if err := <-ended; call.FailureOf(err) != call.GivenUp {
			t.Errorf("the caller who leaves: %v", err)
		}
		close(hold)
		synctest.Wait()
		if len(left) != 1 || !strings.Contains(left[0], "1000000000000042 process-1") {
			t.Errorf("left with %q", left)
		}
		_ = r.Close()
	})
}
