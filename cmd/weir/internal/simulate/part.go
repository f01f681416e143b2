package simulate

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

// A part decides about requests, one after the other. It has a clock, a store and a guard of its own.
type part struct {
	options  Options
	now      time.Time
	handle   *guard.Guard
	ready    chan struct{} // closed when the part has decided about its share of all earlier rounds
	share    *share        // about which it decides
	request  *arrived      // the one about which it decides
	maker    maker
	response discard
}

// share is the requests of a round that a part decides about.
type share struct {
	arrived  []arrived
	outcomes []outcome // of all of them, in order
}

// arrived is a request, and the guard's decision about it.
type arrived struct {
	instant  int64
	logged   *accesslog.Request
	read     bool // it is a request of HTTP
	denied   bool
	listed   bool
	unasked  bool // the store could not be asked
	outcomes int  // how many it has
}

// outcome is the answer of a limit that counts.
type outcome struct {
	limit  identity
	hash   uint64 // of the key
	key    string // if it is denied
	denied bool
	// anonymous says that the request does not have the key that the policy counts by.
	anonymous bool
}

// newPart returns a part for a document, and notes about all that the log does not tell.
func newPart(d *policies.Document, o Options) (p *part, notes []string, err error) {
	p = &part{options: o, ready: make(chan struct{}), response: make(discard)}
	close(p.ready)
	functions, notes := p.functions(d.Needs())
	set, err := d.Set(functions)
	if err != nil {
		return nil, nil, err
	}
	store := core.NewMemory(core.WithClock(func() time.Time { return p.now }), core.WithMaxKeys(o.Keys))
	p.handle, err = guard.Follow(core.New(store), guard.Options{Observe: p.observe, Logger: slog.New(slog.DiscardHandler)}, set)
	return p, notes, err
}

// functions returns functions that read from the log in place of the program's.
func (p *part) functions(needs policies.Needs) (options policies.Options, notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	options = policies.Options{
		Keys: make(map[string]keyfuncs.Func), Costs: make(map[string]func(*http.Request) int),
		Settle: make(map[string]func(*http.Request, guard.Served) int),
		Plan:   func(*http.Request) string { return p.value(p.options.Plan) },
	}
	if needs.Plan && p.options.Plan < 0 {
		note("The log does not say which plan a request is of: all have the plan \"*\". Say by -plan which field it is.")
	}
	for _, name := range needs.Keys {
		at, given := p.options.Names[name]
		if !given {
			at = -1
			note("The log does not say %q: no request has that key. Say by -name %s=FIELD which field of the log it is.", name, name)
		}
		if name == "user" {
			options.Keys[name] = keyfuncs.User(func(*http.Request) string { return p.value(at) })
			continue
		}
		options.Keys[name] = func(*http.Request) (string, error) {
			if value := p.value(at); value != "" {
				return name + ":" + value, nil
			}
			return "", keyfuncs.ErrNoKey
		}
	}
	for _, name := range needs.Costs {
		note("The program says the cost %q, and the log does not: each request costs 1.", name)
		options.Costs[name] = func(*http.Request) int { return 1 }
	}
	for _, name := range needs.Settle {
		note("The program says %q of what was served, and the log does not: it is what was reserved.", name)
		options.Settle[name] = func(_ *http.Request, served guard.Served) int { return served.Cost }
	}
	return options, notes
}

// value returns a value of the log, or "".
func (p *part) value(at int) string {
	if at < 0 || at >= len(p.request.logged.Values) {
		return ""
	}
	return p.request.logged.Values[at]
}

// decide decides about the requests of a share.
func (p *part) decide(all *share) {
	p.share = all
	for i := range all.arrived {
		p.request = &all.arrived[i]
		p.one()
	}
}

// one decides about a request.
func (p *part) one() {
	p.now = time.UnixMicro(p.request.instant)
	r, ok := p.maker.request(p.request.logged)
	if p.request.read = ok; !ok {
		return
	}
	first := len(p.share.outcomes)
	if verdict := p.handle.Decide(r, nil); verdict.Denial == nil { // the header and the answer to a denial are not read
		verdict.Serve(p.response, p.serve)
	}
	p.request.outcomes = len(p.share.outcomes) - first
}

// serve answers a request as the log says.
func (p *part) serve(w http.ResponseWriter, _ *http.Request) (unanswered int) {
	status := p.request.logged.Status
	if status < 200 || status > 599 {
		status = statusGone
	}
	w.WriteHeader(status)
	return 0
}

// statusGone is the status of a request without an answer: its client has gone away.
const statusGone = 499

// observe notes the guard's decision.
func (p *part) observe(e guard.Event) {
	if e.Settled {
		return
	}
	d := p.request
	d.denied = d.denied || e.Status != 0
	d.listed = d.listed || e.Listed
	d.unasked = d.unasked || e.Err != nil
	var last outcome
	var key string // of the last one
	for i := range e.Outcomes {
		if o := &e.Outcomes[i]; !o.Decision.Waived {
			found := outcome{limit: identity{o.Policy, o.Shadow}, hash: last.hash, anonymous: last.anonymous, denied: !o.Decision.Allowed}
			if o.Key != key || found.hash == 0 { // most policies count by the same key
				key, found.hash = o.Key, maphash.String(seed, o.Key)
				found.anonymous = strings.HasPrefix(key, "anonymous:") || strings.Contains(key, "|anonymous:")
			}
			if last = found; found.denied {
				if found.key = o.Key; len(o.Key) > accesslog.LongestKey {
					found.key = string(accesslog.Shorten([]byte(o.Key)))
				}
			}
			p.share.outcomes = append(p.share.outcomes, found)
		}
	}
}
