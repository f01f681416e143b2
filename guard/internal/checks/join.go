package checks

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// join makes the checks of two policies one that satisfies both: it has the larger cost, before and after, the
// larger headroom, and the stricter mode for when the store cannot decide.
func (t *Terms[S]) join(check *core.Check, other Terms[S], theirs *core.Check, settling Settling[S]) {
	t.Mode = Stricter(t.Mode, other.Mode)
	if t.Bans {
		check.Cost, check.Mode = max(check.Cost, theirs.Cost), sterner(check.Mode, theirs.Mode)
		t.Settle, t.TellBan = both(t.Settle, other.Settle), t.TellBan && other.TellBan
		return
	}
	t.First = t.First || other.First
	if t.Settle != nil || other.Settle != nil {
		own, others := settling(t.Settle, check.Cost), settling(other.Settle, theirs.Cost)
		t.Settle = func(r *http.Request, s S) int { return max(own(r, s), others(r, s)) }
	}
	check.Cost = max(check.Cost, theirs.Cost)
	check.Mode = min(check.Mode, theirs.Mode) // it is charged if one of them is
	check.Undelayed = min(check.Undelayed, theirs.Undelayed)
	check.Headroom = max(check.Headroom, theirs.Headroom)
	if check.ReserveFor == 0 || theirs.ReserveFor == 0 { // for good, which is the longest
		check.ReserveFor = 0
	} else {
		check.ReserveFor = max(check.ReserveFor, theirs.ReserveFor)
	}
}

// sterner returns the mode that strikes more, of two checks about one ban.
func sterner(a, b core.Mode) core.Mode {
	for _, mode := range [...]core.Mode{core.Charge, core.OnDenial} {
		if a == mode || b == mode {
			return mode
		}
	}
	return core.Condition
}

// both returns the effect of a response on a ban that two policies share: the sum of the strikes, unless one of them forgives,
// with less than 0. A nil function does nothing.
func both[S any](a, b func(*http.Request, S) int) func(*http.Request, S) int {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(r *http.Request, s S) int {
		own, others := a(r, s), b(r, s)
		if forgiven := min(own, others); forgiven < 0 {
			return forgiven
		}
		return own + others
	}
}
