package main

import (
	"math"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// state has the numbers of a picture. Times are microseconds.
//
// All of it follows from a [core.Decision] and the limit's own numbers, but for two
// things that a Decision does not tell: the instants between the oldest and the
// newest of a sliding log, and which share each of a sliding window's two counters
// has. For these a [record] is kept of the requests that the middleware has admitted.
type state struct {
	Remaining int   `json:"remaining"`
	Next      int64 `json:"next"`  // until Remaining grows, or 0
	Reset     int64 `json:"reset"` // until all is as good as new
	// Level is how much is used, in events. It has a fraction where the limit drains
	// or refills.
	Level float64 `json:"level"`
	// Left says for each instant in a sliding log when it leaves the window.
	Left []int64 `json:"left,omitempty"`
	// Counters are those of a sliding window.
	Counters *counters `json:"counters,omitempty"`
	// Verified says that the record agrees with the Decision. It does not for the
	// blink of an eye in which a request has been decided and not yet recorded.
	Verified bool `json:"verified"`
}

// counters are the two that a sliding window keeps.
type counters struct {
	Current  int   `json:"current"`
	Previous int   `json:"previous"`
	Left     int64 `json:"left"` // until the current window ends
}

// stateOf derives a card's state from the decision at an instant of the page's clock.
func stateOf(decision *core.Decision, now time.Duration, kept *record) state {
	limit := decision.Limit
	s := state{
		Remaining: decision.Remaining,
		Next:      decision.NextAfter.Microseconds(),
		Reset:     decision.ResetAfter.Microseconds(),
		Level:     float64(limit.Capacity() - decision.Remaining),
		Verified:  true,
	}
	switch limit.Algorithm() {
	case "token-bucket", "leaky", "shaping", "gcra":
		rate := limit.Rate() // the level drains at this rate down to 0
		s.Level = float64(decision.ResetAfter) * float64(rate.Events) / float64(rate.Period)
		s.Level = math.Min(s.Level, float64(limit.Capacity()))
	case "sliding-log":
		s.Left, s.Verified = kept.left(decision, now)
	case "sliding-window":
		s.Counters, s.Verified = kept.counters(decision, now)
		s.Level = float64(s.Counters.Current) + float64(s.Counters.Previous)*float64(s.Counters.Left)/float64(limit.Rate().Period.Microseconds())
	}
	return s
}

// record has the requests that the middleware has admitted lately on one card: for a sliding log
// the instants, for a sliding window how many in which window. It is bounded by the
// limit, and knows the requests of [record.admit] alone.
type record struct {
	instants []time.Duration // on the page's clock, oldest first
	windows  []window        // the last two at most
}

// window is one of those in which a sliding window counts.
type window struct {
	end   time.Duration // on the page's clock
	count int
}

// admit takes down a request that has been admitted at an instant.
func (r *record) admit(decision *core.Decision, at time.Duration) {
	limit := decision.Limit
	switch limit.Algorithm() {
	case "sliding-log":
		r.instants = append(r.instants, at)
		for i := len(r.instants) - 1; i > 0 && r.instants[i] < r.instants[i-1]; i-- { // two may be told in the other order
			r.instants[i], r.instants[i-1] = r.instants[i-1], r.instants[i]
		}
		if excess := len(r.instants) - limit.Capacity(); excess > 0 {
			r.instants = append(r.instants[:0], r.instants[excess:]...)
		}
	case "sliding-window":
		// An admitted request is in the current window, which therefore is over a whole
		// window before nothing is left of it.
		period := limit.Rate().Period
		end := at + decision.ResetAfter - period
		if counted := r.in(end, period); counted != nil {
			counted.count++
			return
		}
		r.windows = append(r.windows, window{end, 1})
		if len(r.windows) > 2 {
			r.windows = append(r.windows[:0], r.windows[len(r.windows)-2:]...)
		}
	}
}

// in returns the window that ends at about an instant, or nil.
func (r *record) in(end, period time.Duration) *window {
	for i := range r.windows {
		if (r.windows[i].end - end).Abs() < period/2 {
			return &r.windows[i]
		}
	}
	return nil
}

// left returns when each instant in a sliding log leaves it, and whether there are
// as many as the decision says. The first and the last are the decision's own.
func (r *record) left(decision *core.Decision, now time.Duration) ([]int64, bool) {
	count := decision.Limit.Capacity() - decision.Remaining
	known := r.instants[max(0, len(r.instants)-count):]
	left := make([]int64, 0, count)
	for _, instant := range known {
		wait := min(max(instant+decision.Limit.Rate().Period-now, decision.NextAfter), decision.ResetAfter)
		left = append(left, wait.Microseconds())
	}
	if len(left) > 0 && len(left) == count {
		left[0], left[count-1] = decision.NextAfter.Microseconds(), decision.ResetAfter.Microseconds()
	}
	return left, len(left) == count
}

// counters returns the two counters of a sliding window, and whether they make the
// number of remaining requests that the decision says.
func (r *record) counters(decision *core.Decision, now time.Duration) (*counters, bool) {
	period := decision.Limit.Rate().Period
	var c counters
	var left time.Duration
	switch reset := decision.ResetAfter; {
	case reset > period: // there is something in this window
		left = reset - period
		if w := r.in(now+left, period); w != nil {
			c.Current = w.count
		}
	case reset > 0: // there is something in the one before
		left = reset
	default: // windows are aligned to 1970, which is all that is known of an unused one
		left = period - time.Duration(time.Now().UnixNano())%period
	}
	if w := r.in(now+left-period, period); w != nil && decision.ResetAfter > 0 {
		c.Previous = w.count
	}
	c.Left = left.Microseconds()
	weighted := divideUp(int64(c.Previous)*c.Left, period.Microseconds())
	return &c, max(0, decision.Limit.Capacity()-c.Current-int(weighted)) == decision.Remaining
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }
