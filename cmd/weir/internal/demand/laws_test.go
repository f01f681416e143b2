//go:build !race

package demand

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

const start = 1_772_409_600_000_000 // 2026-03-02 in UTC

// instants draws the instants of a key's requests: bursts, and pauses of all lengths.
func instants(t *rapid.T) []int64 {
	at := int64(start)
	var all []int64
	for range rapid.IntRange(1, 8).Draw(t, "bursts") {
		at += rapid.Int64Range(0, 1<<rapid.IntRange(0, 36).Draw(t, "pause")).Draw(t, "µs")
		step := rapid.Int64Range(0, 1<<rapid.IntRange(0, 24).Draw(t, "step")).Draw(t, "apart")
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			all = append(all, at)
			at += step
		}
	}
	return all
}

// arrivalsOf makes requests of a key.
func arrivalsOf(key string, instants ...int64) []arrival.Arrival {
	all := make([]arrival.Arrival, 0, len(instants))
	for _, at := range instants {
		all = append(all, arrival.Arrival{Instant: at, Key: []byte(key), Hash: arrival.Hash([]byte(key)), Status: 200})
	}
	return all
}

// needOf returns the key that has made requests at these instants.
func needOf(instants []int64) *Key {
	tracker := NewTracker(0)
	tracker.Second(arrivalsOf("one", instants...))
	return tracker.Demand().Keys[0]
}

// denied asks a store in memory, at the same instants, and returns how many it denies.
func denied(t *rapid.T, limit core.Quota, instants []int64) int {
	var now time.Time
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()
	n := 0
	for _, at := range instants {
		now = time.UnixMicro(at)
		d, err := limiter.Allow(context.Background(), "one", limit)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			n++
		}
	}
	return n
}

func TestNeededBurstAdmitsAllAndOneLessDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := instants(t)
		key := needOf(all)
		rate := rapid.IntRange(0, RateCount-1).Draw(t, "rate")
		need := key.Need(rate)
		for _, limit := range []func(int, core.Rate) core.Quota{core.Leaky, core.TokenBucket, core.GCRA} {
			if n := denied(t, limit(need, Rates[rate]), all); n > 0 {
				t.Fatalf("%s denies %d requests, and its burst is what the key needs", limit(need, Rates[rate]), n)
			}
			if need > 1 && denied(t, limit(need-1, Rates[rate]), all) == 0 {
				t.Fatalf("%s denies nothing, and its burst is less than the key needs", limit(need-1, Rates[rate]))
			}
		}
	})
}

func TestOrderOfEqualInstantsIsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var second []arrival.Arrival
		for key := range 3 {
			for range rapid.IntRange(1, 9).Draw(t, "requests") {
				second = append(second, arrivalsOf(strconv.Itoa(key), start+1000*rapid.Int64Range(0, 2).Draw(t, "ms"))...)
			}
		}
		want := needsOf(second)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		random.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
		bySecond := &sorted{}
		bySecond.Second(second)
		if got := needsOf(bySecond.all); got != want {
			t.Fatalf("shuffled, keys need %v, not %v", got, want)
		}
	})
}

// sorted puts requests into the order of time, stable as the timeline does.
type sorted struct{ all []arrival.Arrival }

func (s *sorted) Second(arrivals []arrival.Arrival) {
	for ms := range int64(3) {
		for _, a := range arrivals {
			if a.Instant == start+1000*ms {
				s.all = append(s.all, a)
			}
		}
	}
}

func needsOf(arrivals []arrival.Arrival) (needs [3][RateCount]int) {
	ordered := &sorted{}
	ordered.Second(arrivals)
	tracker := NewTracker(0)
	tracker.Second(ordered.all)
	for _, k := range tracker.Demand().Keys {
		for r := range RateCount {
			needs[k.Text[0]-'0'][r] = k.Need(r)
		}
	}
	return needs
}

// Whatever the fractions of a second were that the log does not tell, a needed burst is off by Doubt at most.
func TestWholeSecondsAreOffByDoubtAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var truth, spread []int64
		for s := range int64(rapid.IntRange(1, 6).Draw(t, "seconds")) {
			k := rapid.IntRange(0, 12).Draw(t, "requests")
			var fractions []int64
			for range k {
				fractions = append(fractions, rapid.Int64Range(0, 999_999).Draw(t, "fraction"))
			}
			for i, f := range sortedInts(fractions) {
				truth = append(truth, start+s*arrival.Second+f)
				spread = append(spread, start+s*arrival.Second+int64(i)*arrival.Second/int64(k))
			}
		}
		if len(truth) == 0 {
			return
		}
		exact, guess := needOf(truth), needOf(spread)
		for r := range RateCount {
			if off := exact.Need(r) - guess.Need(r); off > Doubt(r) || -off > Doubt(r) {
				t.Fatalf("at %s the key needs %d, and %d if its requests are spread: more than ± %d", Rates[r], exact.Need(r), guess.Need(r), Doubt(r))
			}
		}
	})
}

func TestProposalsGrowTighter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := NewTracker(0)
		for key := range rapid.IntRange(1, 30).Draw(t, "keys") {
			all := arrivalsOf(strconv.Itoa(key), instants(t)...)
			if rapid.IntRange(0, 9).Draw(t, "suspect") == 0 {
				for i := range all {
					all[i].Status = 404
				}
			}
			for range rapid.IntRange(1, 200).Draw(t, "keys like it") {
				tracker.Second(all)
			}
		}
		d := tracker.Demand()
		times := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 240 * time.Hour})
		span := times.Draw(t, "span")
		wait := times.Draw(t, "wait")
		proposals := d.Propose(times.Draw(t, "horizon"), span, wait)
		for i, p := range proposals {
			if p.Normal > p.Tolerated {
				t.Fatalf("%s denies %d keys without signs of abuse, and may deny %d", p.Name, p.Normal, p.Tolerated)
			}
			for faster := range p.Cell.Rate {
				if p.Cell.Recovers() > span && RoundUp(d.Normal[faster].Least(p.Tolerated)) > 0 {
					t.Fatalf("%s is %s, which recovers in %v, and the log is of %v", p.Name, p.Cell.Limit(), p.Cell.Recovers(), span)
				}
			}
			if Interval(p.Cell.Rate) > wait {
				t.Fatalf("%s is %s, where a client may wait for %v", p.Name, p.Cell.Limit(), wait)
			}
			if err := p.Cell.Limit().Validate(); err != nil {
				t.Fatal(err)
			}
			if i > 0 && (p.Cell.Burst > proposals[i-1].Cell.Burst || Interval(p.Cell.Rate) < Interval(proposals[i-1].Cell.Rate)) {
				t.Fatalf("%s is %v, and %s is %v", p.Name, p.Cell.Limit(), proposals[i-1].Name, proposals[i-1].Cell.Limit())
			}
		}
	})
}

// A Tracker that has to give keys up is wrong by no more than it says.
func TestFewKeysAreWrongByMissedAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2, 20).Draw(t, "keys")
		bounded, exact := NewTracker(most), NewTracker(0)
		requests := rapid.IntRange(1, 600).Draw(t, "requests")
		for i := range requests {
			key := strconv.Itoa(rapid.IntRange(0, rapid.SampledFrom([]int{3, 100}).Draw(t, "of")).Draw(t, "key"))
			one := arrivalsOf(key, start+int64(i)*100_000)
			bounded.Second(one)
			exact.Second(one)
		}
		got, want := bounded.Demand(), exact.Demand()
		if got.Missed > uint64(2*requests/most) {
			t.Fatalf("%d requests of a key may be missed: more than two in %d of %d", got.Missed, most, requests)
		}
		found := make(map[string]*Key)
		for _, k := range got.Keys {
			found[k.Text] = k
		}
		for _, w := range want.Keys {
			k := found[w.Text]
			if k == nil {
				if w.Requests > got.Missed {
					t.Fatalf("key %s with %d requests is not followed, and at most %d are missed", w.Text, w.Requests, got.Missed)
				}
				continue
			}
			if k.Requests > w.Requests || k.Requests+k.Missed < w.Requests {
				t.Fatalf("key %s has %d requests and at most %d more, not %d", w.Text, k.Requests, k.Missed, w.Requests)
			}
			for r := range RateCount {
				if k.Need(r) > w.Need(r) || k.Need(r)+int(k.Missed) < w.Need(r) {
					t.Fatalf("key %s needs %d at %s, at most %d more, and not %d", w.Text, k.Need(r), Rates[r], k.Missed, w.Need(r))
				}
			}
		}
		if got.Requests != want.Requests {
			t.Fatalf("%d requests, not %d", got.Requests, want.Requests)
		}
	})
}
