// Package simulate says what policies would have done to the requests of a log: it has the guard decide each of them at its instant, with the
// arithmetic of the store.
package simulate

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

// Options say what the program would tell the policies.
type Options struct {
	// Names are the key functions of the program that return a value of the log: the number of that among [accesslog.Options].Values.
	Names map[string]int
	// Plan is the number of the value that is the plan of a request, or -1.
	Plan int
	// Keys is how many keys are kept, by the store and of each limit. 0 means a million.
	Keys int
}

// Simulation replays requests. It is an [arrival.Sink] for arrivals with their requests, and must not be used concurrently.
type Simulation struct {
	options  Options
	now      time.Time
	handle   *guard.Handle
	logged   *accesslog.Request // the one that is being decided
	maker    maker
	response discard
	tally    tally
}

// New returns a simulation of a document.
func New(d *policies.Document, o Options) (*Simulation, error) {
	if o.Keys == 0 {
		o.Keys = 1_000_000
	}
	s := &Simulation{options: o, response: make(discard), tally: tally{mostKeys: o.Keys}}
	d, s.tally.notes = playable(d)
	set, err := d.Set(s.functions(d.Needs())...)
	if err != nil {
		return nil, fmt.Errorf("the policies cannot be replayed: %w", err)
	}
	store := core.NewMemory(core.WithClock(func() time.Time { return s.now }), core.WithMaxKeys(o.Keys))
	handle, err := guard.Follow(core.New(store), guard.Options{Observe: s.observe, Logger: slog.New(slog.DiscardHandler)}, set)
	if err != nil {
		return nil, fmt.Errorf("the policies cannot be replayed: %w", err)
	}
	s.handle = handle
	return s, nil
}

// functions returns what the log says in place of the program.
func (s *Simulation) functions(needs policies.Needs) []policies.Option {
	note := func(format string, args ...any) { s.tally.notes = append(s.tally.notes, fmt.Sprintf(format, args...)) }
	options := []policies.Option{policies.WithPlan(func(*http.Request) string { return s.value(s.options.Plan) })}
	if needs.Plan && s.options.Plan < 0 {
		note("The log does not say which plan a request is of: all have the plan \"*\". Say by -plan which field it is.")
	}
	for _, name := range needs.Keys {
		at, given := s.options.Names[name]
		if !given {
			at = -1
			note("The log does not say %q: no request has that key. Say by -name %s=FIELD which field of the log it is.", name, name)
		}
		if name == "user" {
			options = append(options, policies.WithUser(func(*http.Request) string { return s.value(at) }))
			continue
		}
		options = append(options, policies.WithKey(name, func(*http.Request) (string, error) {
			if value := s.value(at); value != "" {
				return name + ":" + value, nil
			}
			return "", keyfuncs.ErrNoKey
		}))
	}
	for _, name := range needs.Costs {
		note("The program says the cost %q, and the log does not: each request costs 1.", name)
		options = append(options, policies.WithCost(name, func(*http.Request) int { return 1 }))
	}
	for _, name := range needs.Settle {
		note("The program says %q of what was served, and the log does not: it is what was reserved.", name)
		options = append(options, policies.WithSettle(name, func(_ *http.Request, served guard.Served) int { return served.Cost }))
	}
	return options
}

// value returns a value of the log, or "".
func (s *Simulation) value(at int) string {
	if at < 0 || at >= len(s.logged.Values) {
		return ""
	}
	return s.logged.Values[at]
}

// playable returns the document with what a log can tell: a queue that shapes traffic denies as a leaky bucket does, so nobody has to wait, and
// limits of what is in progress are left out. The notes say so.
func playable(d *policies.Document) (*policies.Document, []string) {
	shaped, concurrent := false, false
	replaced := func(limit core.Limit) core.Limit {
		switch limit.Algorithm() {
		case "shaping":
			shaped = true
			leaky := core.Leaky(limit.Capacity(), limit.Rate())
			if limit.Identity() != limit { // it has a name
				leaky = leaky.Named(limit.Name())
			}
			return leaky
		case "concurrent":
			concurrent = true
			return core.Unlimited
		}
		return limit
	}
	c := *d
	c.Limits, c.Plans = make(map[string]core.Limit), make(map[string]map[string]core.Limit)
	for name, limit := range d.Limits {
		c.Limits[name] = replaced(limit)
	}
	for name, plans := range d.Plans {
		c.Plans[name] = make(map[string]core.Limit)
		for plan, limit := range plans {
			c.Plans[name][plan] = replaced(limit)
		}
	}
	var replacePolicies func(all []policies.Policy) []policies.Policy
	replacePolicies = func(all []policies.Policy) []policies.Policy {
		out := make([]policies.Policy, len(all))
		for i := range all {
			p := all[i]
			p.FirstOf = replacePolicies(p.FirstOf)
			p.MaxWait, p.Undelayed = 0, 0
			if limit, err := core.ParseLimit(p.Limit); err == nil && c.Limits[p.Limit] == (core.Limit{}) && c.Plans[p.Limit] == nil {
				if other := replaced(limit); other != limit {
					p.Limit = other.String()
				}
			}
			// What has always room needs no more fields, some of which do not go with it.
			unlimited := func(p policies.Policy) bool { return p.Limit == "unlimited" || c.Limits[p.Limit] == core.Unlimited }
			if unlimited(p) || slices.ContainsFunc(p.FirstOf, unlimited) {
				p = policies.Policy{Name: p.Name, Match: p.Match, Limit: "unlimited", Key: p.Key}
			}
			out[i] = p
		}
		return out
	}
	c.Policies = replacePolicies(d.Policies)
	var notes []string
	if shaped {
		notes = append(notes, "Limits that shape traffic deny here whom they would deny, and nobody waits.")
	}
	if concurrent {
		notes = append(notes, "Limits of what is in progress (concurrent) are left out: a log does not tell how long requests ran.")
	}
	return &c, notes
}

// Second implements [arrival.Sink].
func (s *Simulation) Second(arrivals []arrival.Arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		s.now, s.logged = time.UnixMicro(a.Instant), a.Request
		s.tally.begin(s.now, a.Request)
		r, ok := s.maker.request(a.Request)
		if !ok {
			s.tally.unread++
			continue
		}
		if verdict := s.handle.Decide(r, nil); verdict.Denial == nil { // nobody reads the header, nor the answer to a denial
			verdict.Serve(s.response, s.serve)
		}
		s.tally.end()
	}
}

// serve answers a request as the log says.
func (s *Simulation) serve(w http.ResponseWriter, _ *http.Request) (unanswered int) {
	status := s.logged.Status
	if status < 200 || status > 599 {
		status = statusGone
	}
	w.WriteHeader(status)
	return 0
}

// statusGone is what a request without an answer counts as: its client has gone away.
const statusGone = 499

// observe counts what the guard has decided.
func (s *Simulation) observe(e guard.Event) { s.tally.observe(&e) }
