package core_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// However calls, resets and settlements overlap, what is remembered in the end is what the store
// would answer.
func TestNoDenialOutlivesWhatOverlapsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
		clock := core.WithClock(func() time.Time { return now })
		store := &stepwise{Store: core.NewMemory(clock), steps: make(chan chan struct{})}
		limiter := core.New(denialcache.New(store, 1000, clock))
		algorithm := rapid.SampledFrom(slices.Sorted(maps.Keys(hourly))).Draw(t, "algorithm")
		limits := []core.Quota{hourly[algorithm](4).Named("plan"), hourly[algorithm](2).Named("plan"), hourly[algorithm](3)}
		keys := []string{"a", "b"}
		drawCheck := func() core.Check {
			return core.Check{
				Key: rapid.SampledFrom(keys).Draw(t, "key"), Limit: rapid.SampledFrom(limits).Draw(t, "limit"),
				Cost: rapid.IntRange(1, 3).Draw(t, "cost"),
			}
		}
		var underWay []chan struct{} // calls that have come to a step
		calls := 0
		step := func(i int) {
			proceed := underWay[i]
			underWay = slices.Delete(underWay, i, i+1)
			close(proceed)
			select {
			case next := <-store.steps:
				underWay = append(underWay, next)
			case <-store.ended:
				calls--
			}
		}
		store.ended = make(chan struct{})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if n := len(underWay); n > 0 && rapid.Bool().Draw(t, "go on") {
				step(rapid.IntRange(0, n-1).Draw(t, "which"))
				continue
			}
			check := drawCheck()
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			calls++
			go func() {
				var err error
				switch kind {
				case 0:
					err = limiter.Reset(context.Background(), check.Key, check.Limit)
				case 1:
					_, err = limiter.Refund(context.Background(), check.Key, check.Limit.(core.Quota), check.Cost)
				default:
					_, err = limiter.AllowAll(context.Background(), check)
				}
				if err != nil {
					panic(err)
				}
				store.ended <- struct{}{}
			}()
			select {
			case next := <-store.steps:
				underWay = append(underWay, next)
			case <-store.ended: // from memory
				calls--
			}
		}
		for len(underWay) > 0 {
			step(0)
		}
		if calls != 0 {
			t.Fatalf("%d calls have not ended", calls)
		}
		for _, key := range keys {
			for _, limit := range limits {
				for cost := 1; cost <= 5; cost++ {
					check := []core.Check{{Key: key, Limit: limit, Cost: cost}}
					want, err := core.New(store.Store).PeekAll(t.Context(), check...)
					if err != nil {
						t.Fatal(err)
					}
					got, err := limiter.PeekAll(t.Context(), check...)
					if got[0].Repeated = false; err != nil || got[0] != want[0] {
						t.Fatalf("%d of %s under %s: %+v from the cache, %v, and %+v from the store", cost, key, limit, got[0], err, want[0])
					}
				}
			}
		}
	})
}

// stepwise is a store whose calls stop before they are decided and before they are answered.
type stepwise struct {
	core.Store

	steps chan chan struct{}
	ended chan struct{}
}

func (s *stepwise) stop() {
	proceed := make(chan struct{})
	s.steps <- proceed
	<-proceed
}

func (s *stepwise) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if calls[0].Checks[0].Mode == core.Charge {
		s.stop()
		defer s.stop()
	}
	return s.Store.Decide(ctx, calls)
}

func (s *stepwise) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.stop()
	defer s.stop()
	return s.Store.Settle(ctx, settlements)
}

func (s *stepwise) Reset(ctx context.Context, key string, limits []core.Limit) error {
	s.stop()
	defer s.stop()
	return s.Store.Reset(ctx, key, limits)
}

// A denial under a calendar whose windows jitter is repeated like any other: the key's own window ends when it says.
func TestADenialUnderJitterIsRepeated(t *testing.T) {
	limiter, store, _, now := cached()
	l := core.Calendar(1, core.Every(time.Hour).Jitter(10*time.Minute))
	mustAsk(t, limiter, store, l, 1)
	denied, asked := mustAsk(t, limiter, store, l, 1)
	again, repeated := mustAsk(t, limiter, store, l, 1)
	denied.Repeated = true
	if denied.Allowed || !asked || repeated || again != denied {
		t.Errorf("%+v is denied, asked %t, and then %+v, asked %t", denied, asked, again, repeated)
	}
	*now = now.Add(again.RetryAfter)
	if d, asked := mustAsk(t, limiter, store, l, 1); !d.Allowed || !asked {
		t.Errorf("in the next window: %+v, asked %t", d, asked)
	}
}
