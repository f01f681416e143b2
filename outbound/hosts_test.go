package outbound

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// The window counts as a list of all calls does.
func TestTheWindowCountsTheLatestCalls(t *testing.T) {
	type event struct {
		part     int64
		accepted bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var w window
		var all []event
		now := int64(0)
		agrees := func() {
			calls, accepted := 0, 0
			for _, e := range all {
				if now-e.part < windowParts {
					calls++
					if e.accepted {
						accepted++
					}
				}
			}
			if c, a := w.sum(now); c != calls || a != accepted {
				t.Fatalf("%d calls, %d accepted in part %d, want %d and %d: %v", c, a, now, calls, accepted, all)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.Int64Range(0, 2*windowParts).Draw(t, "later") / rapid.Int64Range(1, 9).Draw(t, "slower")
			agrees()
			e := event{now, rapid.Bool().Draw(t, "accepted")}
			all = append(all, e)
			w.count(e.part, e.accepted)
			agrees()
		}
	})
}

// The chance is that of the book, and no number makes it anything else than a probability.
func TestTheChanceIsThatOfTheBook(t *testing.T) {
	for _, c := range []struct {
		calls, accepted int
		want            float64
	}{
		{0, 0, 0}, {1, 0, 0.5}, {9, 0, 0.9}, {10, 5, 0}, {10, 6, 0}, {10, 4, 2.0 / 11}, {999, 100, 0.799},
	} {
		if got := chance(c.calls, c.accepted); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d calls, %d accepted: %v, want %v", c.calls, c.accepted, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.IntRange(0, math.MaxInt32).Draw(t, "calls")
		if p := chance(calls, rapid.IntRange(0, calls).Draw(t, "accepted")); p < 0 || p >= 1 {
			t.Fatal(p)
		}
	})
}

// The retries that a budget allows are at most half of its tokens, and its ratio of the accepted calls, in any order.
func TestTheBudgetBoundsTheRetries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retry := Retry{
			Most: 1, Tokens: rapid.IntRange(1, 50).Draw(t, "tokens"), Ratio: float64(rapid.IntRange(1, 1000).Draw(t, "thousandths")) / 1000,
		}
		h := New(core.New(core.NewMemory()), core.Unlimited, Options{Retry: retry}).hosts
		accepts, retries := 0, 0
		for _, isAccepted := range rapid.SliceOfN(rapid.Bool(), 1, 300).Draw(t, "accepted") {
			if isAccepted {
				accepts++
				h.count("host", accepted, false)
			} else if h.count("host", rejected, false) {
				retries++
			}
		}
		if most := float64(retry.Tokens)/2 + retry.Ratio*float64(accepts) + 1e-9; float64(retries) > most {
			t.Fatalf("%d retries after %d accepted calls, want at most %v", retries, accepts, most)
		}
	})
}

// A Transport remembers the latest hosts that redirects name, and of their names a hash alone. One that is called
// all the time is not forgotten.
func TestHostsTakeNoMoreThanTheirRoom(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		h := New(core.New(core.NewMemory()), core.Unlimited, Options{Throttle: true}).hosts
		for i := range 100_000 {
			h.count(strconv.Itoa(i), rejected, false)
			h.count("busy", rejected, false)
			time.Sleep(time.Millisecond)
		}
		if n := h.state.Len(); n > mostHosts {
			t.Errorf("%d hosts are remembered, want at most %d", n, mostHosts)
		}
		h.update("busy", func(of *host) {
			if calls, _ := of.window.sum(h.part()); calls < 900 || calls > 1000 {
				t.Errorf("%d calls of the busy host are known, want those of the last second", calls)
			}
		})
	})
}
