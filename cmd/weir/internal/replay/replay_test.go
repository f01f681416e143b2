package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
)

const start = 1_772_409_600_000_000 // 2026-03-02 in UTC

// traffic draws requests of a few keys, in the order of time.
func traffic(t *rapid.T) []arrival.Arrival {
	at := int64(start)
	var all []arrival.Arrival
	for range rapid.IntRange(1, 250).Draw(t, "requests") {
		at += rapid.Int64Range(0, 1<<rapid.IntRange(0, 32).Draw(t, "pause")).Draw(t, "µs")
		key := []byte(fmt.Sprint("key", rapid.IntRange(0, 3).Draw(t, "key")))
		all = append(all, arrival.Arrival{Instant: at, Key: key, Hash: arrival.Hash(key), Status: 200, Agent: "agent"})
	}
	return all
}

// decided asks a store in memory at the same instants: which requests are denied?
func decided(t *rapid.T, limit core.Quota, all []arrival.Arrival) (denied uint64, keys map[string]uint64) {
	var now time.Time
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()
	keys = make(map[string]uint64)
	for _, a := range all {
		now = time.UnixMicro(a.Instant)
		d, err := limiter.Allow(context.Background(), string(a.Key), limit)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			denied++
			keys[string(a.Key)]++
		}
	}
	return denied, keys
}

func TestDecidesAsMemoryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := traffic(t)
		tracker := demand.NewTracker(0)
		tracker.Second(all)
		d := tracker.Demand()
		cell := demand.Cell{Rate: rapid.IntRange(0, demand.RateCount-1).Draw(t, "rate"), Burst: rapid.SampledFrom(demand.Bursts[:12]).Draw(t, "burst")}
		r := replay.New(d, []demand.Proposal{{Name: "drawn", Cell: cell}}, time.UTC)
		var kept []arrival.Arrival
		for _, a := range all {
			if r.Keep(a.Hash) != arrival.None {
				kept = append(kept, a)
			}
		}
		r.Second(kept)

		want, keys := decided(t, cell.Limit(), all)
		got := r.Cell(cell)
		if !got.Counted || got.Denied != want || got.Keys != len(keys) {
			t.Fatalf("%s denies %d requests of %d keys (%+v), and the store in memory %d of %d", cell.Limit(), got.Denied, got.Keys, got, want, len(keys))
		}
		var byDay uint64
		for _, day := range r.Days() {
			byDay += day.Denied[0]
		}
		if byDay != want {
			t.Fatalf("%d are denied on all days, not %d", byDay, want)
		}
		for _, s := range r.Subjects() {
			if v := s.Verdicts[0]; v.Denied != keys[s.Key.Text] {
				t.Fatalf("key %s is denied %d times, not %d", s.Key.Text, v.Denied, keys[s.Key.Text])
			}
		}
	})
}

// Each limit of the frontier denies what a bucket of its own denies.
func TestFrontierDeniesAsEachBucketDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := traffic(t)
		tracker := demand.NewTracker(0)
		tracker.Second(all)
		r := replay.New(tracker.Demand(), nil, time.UTC)
		var kept []arrival.Arrival
		for _, a := range all {
			if r.Keep(a.Hash) == arrival.When {
				kept = append(kept, a)
			}
		}
		r.Second(kept)
		rate := rapid.IntRange(0, demand.RateCount-1).Draw(t, "rate")
		interval := demand.Interval(rate).Microseconds()
		for _, burst := range demand.Bursts {
			denied, empty := uint64(0), make(map[uint64]int64)
			for _, a := range all {
				if next := max(empty[a.Hash], a.Instant) + interval; next-a.Instant <= int64(burst)*interval {
					empty[a.Hash] = next
				} else {
					denied++
				}
			}
			if got := r.Cell(demand.Cell{Rate: rate, Burst: burst}); got.Denied != denied || !got.Counted {
				t.Fatalf("%s denies %d requests, not %d", got.Limit(), got.Denied, denied)
			}
		}
	})
}

func TestLongestDenial(t *testing.T) {
	key := []byte("one")
	var all []arrival.Arrival
	for _, seconds := range []float64{0, 0.1, 5, 6, 6.1, 6.2, 6.9, 7.5, 20, 20.1} { // one at once, one a second
		all = append(all, arrival.Arrival{Instant: start + int64(seconds*1e6), Key: key, Hash: arrival.Hash(key), Status: 200, Path: 7})
	}
	tracker := demand.NewTracker(0)
	tracker.Second(all)
	r := replay.New(tracker.Demand(), []demand.Proposal{{Cell: demand.Cell{Rate: rateOf(t, core.PerSecond(1)), Burst: 1}}}, time.UTC)
	r.Second(all)
	s := r.Subjects()[0]
	v := s.Verdicts[0]
	if v.Denied != 5 || v.Longest != 800*time.Millisecond || !v.From.Equal(time.UnixMicro(start+6_100_000)) || !v.First.Equal(time.UnixMicro(start+100_000)) {
		t.Errorf("denied %d times, first at %v, and longest for %v from %v", v.Denied, v.First, v.Longest, v.From)
	}
	if e := s.Evidence; e.Paths() != 1 || e.Hours[0] != 10 || e.Statuses[2] != 10 || len(e.Agents) != 1 {
		t.Errorf("evidence: %+v", e)
	}
}

func rateOf(t *testing.T, rate core.Rate) int {
	t.Helper()
	for i, r := range demand.Rates {
		if r == rate {
			return i
		}
	}
	t.Fatalf("no rate %s", rate)
	return 0
}
