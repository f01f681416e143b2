package guard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// call is the checks of a request that are asked together: shadow checks last, and none
// that was charged before. All of them are charged, or none.
type call struct {
	checks []core.Check
	terms  []terms
}

// terms are what a policy says about its check.
type terms struct {
	name   string // what it is called
	unit   string // what it counts
	mode   ErrorMode
	settle func(*http.Request, Served) int // nil: what is reserved is right
}

// call returns the call to make about a request. With an error, it returns the
// policy that could not say.
func (g *Guard) call(r *http.Request, rc *requestContext) (call, error) {
	asked := call{checks: rc.room.check[:0], terms: rc.room.terms[:0]}
	if n := len(g.policies); n > 1 {
		asked = call{checks: make([]core.Check, 0, n), terms: make([]terms, 0, n)}
	}
	for _, shadow := range [...]bool{false, true} {
		for i := range g.policies {
			p := &g.policies[i]
			if p.Shadow != shadow || p.Skip != nil && p.Skip(r) {
				continue
			}
			check, err := p.check(r)
			if err != nil {
				return g.unasked(i), fmt.Errorf("ratelimit: policy %d: %w", i, err)
			}
			if check.Limit == core.Unlimited {
				continue
			}
			if charged, place := rc.outer.charged(&check, g.limiter); charged != nil {
				if p.Settle != nil || check.Cost > charged.own()[place].Cost {
					v := rc.reserving()
					v.demands = append(v.demands, demand{of: charged, place: place, settle: settling(p.Settle, check.Cost)})
				}
				continue
			}
			a := terms{name: g.names[i], unit: p.Unit, mode: p.OnError, settle: p.Settle}
			if a.name == "" {
				a.name = check.Limit.Name()
			}
			if a.mode == unsaid {
				a.mode = g.options.OnError
			}
			if same := asked.find(&check); same >= 0 { // one limit, charged once
				asked.terms[same].join(&asked.checks[same], a, &check)
				continue
			}
			asked.checks, asked.terms = append(asked.checks, check), append(asked.terms, a)
		}
	}
	return asked, nil
}

// unasked returns a policy that could not say what to ask, as far as it is known.
func (g *Guard) unasked(i int) call {
	p, name := &g.policies[i], g.names[i]
	if name == "" && p.LimitFor == nil {
		name = p.Limit.Name()
	}
	return call{checks: []core.Check{{Limit: p.Limit, Shadow: p.Shadow}}, terms: []terms{{name: name}}}
}

// unanswered returns who has asked, but for those of whose checks something was
// decided.
func (q *call) unanswered(decided *call) []Unanswered {
	var list []Unanswered
	for i := range q.checks {
		c, a := &q.checks[i], &q.terms[i]
		if decided == nil || decided.find(c) < 0 {
			list = append(list, Unanswered{Policy: a.name, Limit: c.Limit, Shadow: c.Shadow, Mode: a.mode})
		}
	}
	return list
}

// find returns the place of the check of the same state that is asked already, or -1.
func (q *call) find(check *core.Check) int {
	for i := range q.checks {
		if c := &q.checks[i]; c.Key == check.Key && c.Shadow == check.Shadow && c.Limit.Same(check.Limit) {
			return i
		}
	}
	return -1
}

// join has two policies ask with one check, as both want: it costs what the dearer one
// says, before and after, and the stricter one decides when the store cannot.
func (a *terms) join(check *core.Check, other terms, theirs *core.Check) {
	if a.settle != nil || other.settle != nil {
		own, others := settling(a.settle, check.Cost), settling(other.settle, theirs.Cost)
		a.settle = func(r *http.Request, s Served) int { return max(own(r, s), others(r, s)) }
	}
	check.Cost = max(check.Cost, theirs.Cost)
	check.Mode = min(check.Mode, theirs.Mode) // it is charged if one of them is
	check.Undelayed = min(check.Undelayed, theirs.Undelayed)
	a.mode = stricter(a.mode, other.mode)
}

// settling returns what a policy says that a request has really cost: what it has asked,
// if it says nothing.
func settling(settle func(*http.Request, Served) int, cost int) func(*http.Request, Served) int {
	if settle == nil {
		return func(*http.Request, Served) int { return cost }
	}
	return func(r *http.Request, s Served) int {
		s.Cost = cost // its own, not that of who asks together with it
		return settle(r, s)
	}
}

// stricter returns that of two modes which lets less through.
func stricter(a, b ErrorMode) ErrorMode {
	for _, mode := range [...]ErrorMode{FailClosed, Fallback} {
		if a == mode || b == mode {
			return mode
		}
	}
	return FailOpen
}

// check returns what a policy asks about a request. If that is not limited, it has no key.
func (p *Policy) check(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Cost: 1, Shadow: p.Shadow, Undelayed: p.Undelayed}
	if p.LimitFor != nil {
		check.Limit = p.LimitFor(r)
		if check.Limit == (core.Limit{}) {
			return core.Check{}, errNoLimit
		}
		if err := check.Limit.Validate(); err != nil {
			return core.Check{}, err
		}
		if !delays(check.Limit) {
			check.Undelayed = 0
		}
	}
	if check.Limit == core.Unlimited {
		return check, nil
	}
	if p.Cost != nil {
		check.Cost = p.Cost(r)
		if check.Cost < 0 {
			return core.Check{}, fmt.Errorf("cost %d is negative", check.Cost)
		}
		if check.Cost == 0 {
			check.Mode = core.Look
		}
	}
	var err error
	check.Key, err = p.By(r)
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && check.Key == "" {
		check.Key, err = keyfuncs.Anonymous(r)
	}
	return check, err
}

// errNoLimit is the error of a LimitFor that has returned nothing: of a plan that is in no map, say.
var errNoLimit = errors.New("LimitFor has returned the zero Limit: return a limit, or core.Unlimited for who has none")
