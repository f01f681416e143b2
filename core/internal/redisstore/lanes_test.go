package redisstore

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Places are renewed and given back however many settlements wait for the server, and whatever else is settled together with
// them.
func TestPlacesWaitForNoSettlement(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limit := spec(exact.Concurrent, 10, 10, time.Minute)
		free := make(chan struct{})
		r := wired(t, func(command redis.Cmder) (string, error) {
			corrections, _ := command.Args()[2].(int)
			if word(command, "settle") {
				<-free
			}
			return strings.TrimSuffix(strings.Repeat("0 ", corrections), " "), nil
		})
		settled := make(chan error, 600)
		for range 500 {
			go func() { settled <- r.Settle(t.Context(), correction("key", hourly, -1)) }()
		}
		renewal := call.Correction{Correction: exact.Correction{Events: -1, Holder: call.NewHolder(), Renew: true}, Key: "key", Spec: limit}
		synctest.Wait()
		for _, list := range [][]call.Correction{{renewal}, {release("key", limit, call.NewHolder(), 1)}} {
			if err := r.Settle(t.Context(), list); err != nil {
				t.Error(err)
			}
		}
		both := append(correction("key", hourly, -1), release("key", limit, call.NewHolder(), 1))
		go func() { settled <- r.Settle(t.Context(), both) }()
		synctest.Wait()
		if waiting, inFlight := r.only.places.Load(); waiting+inFlight > 0 || len(settled) > 0 {
			t.Errorf("%d wait and %d are in flight for places, and %d are settled", waiting, inFlight, len(settled))
		}
		close(free)
		for range 501 {
			if err := <-settled; err != nil {
				t.Error(err)
			}
		}
		_ = r.Close()
	})
}

// Each lane leaves connections to the others.
func TestLanesShareThePool(t *testing.T) {
	for size, want := range map[int][3]int{1: {0, 0, 0}, 20: {7, 7, 5}, 32: {12, 12, 8}} {
		client := redis.NewClient(&redis.Options{Addr: "localhost:1", PoolSize: size})
		r := newStore(client, func(c *Config) { c.Owned = true })
		if got := [3]int{r.only.checks.MostInFlight(), r.only.settlements.MostInFlight(), r.only.places.MostInFlight()}; got != want {
			t.Errorf("of %d connections %v may be in use, want %v", size, got, want)
		}
		_ = r.Close()
	}
	r := newStore(unknownClient{})
	if got := r.only.checks.MostInFlight(); got != 0 {
		t.Errorf("of a client of an unknown kind %d may be in use", got)
	}
}

// unknownClient is a client of a kind that nobody knows.
type unknownClient struct{ redis.UniversalClient }
