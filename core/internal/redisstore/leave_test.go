package redisstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/failure"
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
			synctest.Test(t, func(t *testing.T) {
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
				ctx, leave := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() { _, err := r.Decide(ctx, c.calls); left <- err }() // which waits for a worker to send it
				synctest.Wait()
				hold <- struct{}{}
				synctest.Wait()
				leave()
				if err := <-left; failure.Of(err) != failure.GivenUp {
					t.Errorf("the caller who leaves: %v", err)
				}
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

// callFor returns a call that asks for some units.
func callFor(units int) *call.Call { return callOf(call.Check{Key: "key", Spec: hourly, Units: units}) }

// severalTimes returns a call for a unit that is asked so many times.
func severalTimes(times int) *call.Call {
	c := callFor(1)
	c.Times = times
	return c
}
