package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Calls that wait together share a round trip. No script run of it has many keys or writes many
// instants, and settlements of a key keep their
// order.
func TestNoScriptRunIsLong(t *testing.T) {
	const calls = 101
	keys := []string{"key:a", "key:b"}
	for _, test := range []struct {
		name string
		lane func(*Store) *lane
		ask  func(r *Store, i int) error
		want string // how many keys of states each script run has

		reply, instant string // to each of them, and behind them
	}{
		{"settlements", func(r *Store) *lane { return r.only.settlements }, func(r *Store, i int) error {
			return r.Settle(t.Context(), correction(keys[i%2], hourly, -1-i))
		}, "[1 16 16 16 16 16 16 4]", "0", ""},
		{"reservations for a time", func(r *Store) *lane { return r.only.checks }, func(r *Store, i int) error {
			_, err := decide(t.Context(), r, call.Check{
				Key: keys[i%2], Spec: hourly, Cost: 1, Units: 1, Charge: true, ReserveFor: time.Minute.Microseconds(),
			})
			return err
		}, "[1 16 16 16 16 16 16 4]", "0", " " + instant},
		{"plain checks", func(r *Store) *lane { return r.only.checks }, func(r *Store, i int) error {
			_, err := decide(t.Context(), r, call.Check{Key: fmt.Sprint("key:", i), Spec: hourly, Units: 1})
			return err
		}, "[1 64 36]", "0", " " + instant},
		{"calls of two checks", func(r *Store) *lane { return r.only.checks }, func(r *Store, i int) error {
			key := fmt.Sprint("key:", i)
			_, err := decide(t.Context(), r, call.Check{Key: key, Spec: hourly, Units: 1}, call.Check{Key: key, Spec: spec(exact.Leaky, 5, 1, time.Hour), Units: 1})
			return err
		}, "[2 32 32 32 32 32 32 8]", "0", " " + instant},
		{"places that are given back", func(r *Store) *lane { return r.only.places }, func(r *Store, i int) error {
			return r.Settle(t.Context(), []call.Correction{release(keys[i%2], spec(exact.Concurrent, 10, 10, time.Minute), call.NewHolder(), 1)})
		}, "[1 32 32 32 4]", "0", ""},
		{"checks of many units of logs", func(r *Store) *lane { return r.only.checks }, func(r *Store, i int) error {
			_, err := decide(t.Context(), r, call.Check{Key: fmt.Sprint("key:", i), Spec: spec(exact.SlidingLog, 1000, 1000, time.Hour), Units: 300})
			return err
		}, fmt.Sprint(slices.Concat([]int{1}, slices.Repeat([]int{3}, 33), []int{1})), "0 0 0 0", " " + instant},
	} {
		t.Run(test.name, func(t *testing.T) {
			opened := make(chan struct{})
			var runs []int
			units := make(map[any][]int64) // what the settlements of each key give back, in their order
			r := wired(t, func(command redis.Cmder) (string, error) {
				<-opened
				words := command.Args()
				all := words[3 : 3+words[2].(int)]
				states := slices.DeleteFunc(slices.Clone(all), func(key any) bool { return strings.HasSuffix(key.(string), "=reserved") })
				runs = append(runs, len(states))
				for i, key := range states {
					if back, settles := words[min(3+len(all)+5*i+1, len(words)-1)].(int64); settles {
						units[key] = append(units[key], -back)
					}
				}
				return strings.Join(slices.Repeat([]string{test.reply}, len(states)), " ") + test.instant, nil
			}, func(c *Config) { c.InFlight, c.Patience = 1, time.Minute })
			var group sync.WaitGroup
			for i := range calls {
				group.Go(func() {
					if err := test.ask(r, i); err != nil {
						t.Error(err)
					}
				})
				awaitLoad(t, test.lane(r), i+1)
			}
			close(opened)
			group.Wait()
			if got := fmt.Sprint(runs); got != test.want {
				t.Errorf("the script runs have had %v keys, want %v", got, test.want)
			}
			for key, of := range units {
				if !slices.IsSorted(of) {
					t.Errorf("settlements of %v are sent in the order of %v units", key, of)
				}
			}
		})
	}
}
