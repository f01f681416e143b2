package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// byQuery is a key function that finds a key, none, an empty one or an error, as the query says.
func byQuery(r *http.Request) (string, error) {
	switch key := r.URL.Query().Get("key"); key {
	case "none":
		return "", keyfuncs.ErrNoKey
	case "fails":
		return "", errors.New("no key today")
	default:
		return key, nil
	}
}

// meet has requests meet Guards of these policies, the outermost first, and returns the events, the header and the outcomes
// of each request.
func meet(store core.Store, options Options, policies []Policy, plain bool, targets []string) (all []string) {
	limiter := core.New(store)
	var events []string
	options.Logger = slog.New(slog.DiscardHandler)
	options.Observe = func(e Event) {
		err := e.Err
		e.Request, e.Elapsed, e.Held, e.Err = nil, 0, 0, nil
		events = append(events, fmt.Sprintf("%+v: %v", e, err))
	}
	var guards []*Guard
	for i := range policies {
		g := Must(New(limiter, options, policies[i]))
		if !plain {
			g.current.Load().plain = nil
		}
		guards = append(guards, g)
	}
	for _, target := range targets {
		events = nil
		header := make(http.Header)
		r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
		if r.URL.Query().Has("body") {
			r = httptest.NewRequest(http.MethodPost, target, strings.NewReader("a=b"))
		}
		var admitted []Verdict
		for _, g := range guards {
			v := g.Decide(r, nil)
			v.WriteHeader(header)
			if r = v.Request; v.Denial != nil {
				break
			}
			admitted = append(admitted, v)
		}
		serve(httptest.NewRecorder(), admitted)
		header.Del("Retry-After") // a random one, of a store that has failed
		all = append(all, fmt.Sprintf("%q %v %+v", events, header, OutcomesFrom(r.Context())))
	}
	return all
}

// serve serves a request that has met Guards, the outermost first.
func serve(w http.ResponseWriter, admitted []Verdict) {
	if len(admitted) == 0 {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	admitted[0].Serve(w, func(w http.ResponseWriter, _ *http.Request) int {
		serve(w, admitted[1:])
		return 0
	})
}

// byNumber returns a number that a request names.
func byNumber(name string) func(*http.Request) int {
	return func(r *http.Request) int {
		n, _ := strconv.Atoi(r.URL.Query().Get(name))
		return n
	}
}

// settlingByNumber settles a request at the cost that it names.
var settlingByNumber = SettlePolicy{First: true, Cost: func(r *http.Request, s Served) int { return s.Cost + byNumber("more")(r) }}

// A request that needs one check, known but for its key and its cost, is decided as any other is.
func TestAPlainRequestIsDecidedAsAnyOther(t *testing.T) {
	limit, other := core.FixedWindow(2, time.Hour), core.FixedWindow(3, time.Hour)
	targets := []string{
		"/?key=a", "/?key=a", "/?key=a", "/?key=none", "/?key=none", "/?key=none", "/?key=", "/?key=fails", "/?key=b&body=1", "/?key=a",
		"/?key=c&cost=1&room=1", "/?key=c&cost=2&more=-1", "/?key=c&cost=1&more=1", "/?key=c&cost=-1", "/?key=c&room=-1", "/?key=d&cost=1&room=2", "/?key=d&cost=1&room=3",
	}
	for name, policies := range map[string][]Policy{
		"alone":                {{Limit: limit, By: byQuery}},
		"by the peer":          {{Limit: limit}},
		"with a unit":          {{Limit: limit, By: byQuery, Unit: "tokens"}},
		"the same in front":    {{Limit: limit, By: byQuery}, {Limit: limit, By: byQuery}},
		"another in front":     {{Limit: other, By: byQuery}, {Limit: limit, By: byQuery}},
		"a shadow in front":    {{Limit: other, By: byQuery, Shadow: true}, {Limit: other, By: byQuery}},
		"with a cost":          {{Limit: other, By: byQuery, Cost: byNumber("cost")}},
		"with a headroom":      {{Limit: other, By: byQuery, Headroom: byNumber("room")}},
		"settled":              {{Limit: other, By: byQuery, Cost: byNumber("cost"), Settle: settlingByNumber}},
		"settled outside":      {{Limit: other, By: byQuery, Settle: settlingByNumber}, {Limit: other, By: byQuery, Cost: byNumber("cost"), Settle: settlingByNumber}},
		"settled and reserved": {{Limit: other, By: byQuery, Settle: SettlePolicy{First: true, Cost: settlingByNumber.Cost, ReserveFor: time.Minute}}},
		"a skipped one before": {{Limit: other, By: byQuery, Skip: func(*http.Request) bool { return true }}, {Limit: limit, By: byQuery}},
	} {
		for mode, err := range map[ErrorMode]error{FailOpen: nil, FailClosed: core.Unreachable, Fallback: core.Unreachable, unsaid: core.Overloaded} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				answers := func(plain bool) (all []string) {
					bubbletest.Run(t, func(*testing.T) {
						store := core.NewMemory()
						if err != nil {
							store = lost{err: err}
						}
						all = meet(store, Options{OnError: mode}, policies, plain, targets)
					})
					return all
				}
				got := answers(true)
				for i, want := range answers(false) {
					if got[i] != want {
						t.Errorf("%s: %s,\nwant %s", targets[i], got[i], want)
					}
				}
			})
		}
	}
}

type nobodyListed struct{}

func (nobodyListed) Has(netip.Addr, string) bool { return false }
func (nobodyListed) Keys() int                   { return 0 }

// A policy or an option that says more about a request than its key takes the way of all others.
func TestWhatIsPlain(t *testing.T) {
	limit := core.Leaky(10, core.PerSecond(1))
	plain := func(options Options, policies ...Policy) bool {
		return Must(New(core.New(core.NewMemory()), options, policies...)).current.Load().plain != nil
	}
	if !plain(Options{}, Policy{Limit: limit}) || !plain(Options{OnError: Fallback}, Policy{Limit: limit, By: keyfuncs.Route, OnError: FailClosed}) {
		t.Error("one limit is not plain")
	}
	for name, not := range map[string]bool{
		"two policies":  plain(Options{}, Policy{Limit: limit}, Policy{Limit: core.Leaky(20, core.PerSecond(1)), By: keyfuncs.Global}),
		"Lists":         plain(Options{Lists: Lists{Deny: nobodyListed{}}}, Policy{Limit: limit}),
		"preflights":    plain(Options{ExemptPreflights: true}, Policy{Limit: limit}),
		"LimitFor":      plain(Options{}, Policy{LimitFor: func(*http.Request) core.Limit { return limit }}),
		"Skip":          plain(Options{}, Policy{Limit: limit, Skip: func(*http.Request) bool { return false }}),
		"Shadow":        plain(Options{}, Policy{Limit: limit, Shadow: true}),
		"Ban":           plain(Options{}, Policy{Ban: BanPolicy{Ban: core.Ban{Strikes: core.SlidingLog(5, time.Minute), First: time.Minute}}, By: keyfuncs.Global}),
		"Unlimited":     plain(Options{}, Policy{Limit: core.Unlimited}),
		"Concurrent":    plain(Options{}, Policy{Limit: core.Concurrent(1, time.Minute)}),
		"Shaping":       plain(Options{}, Policy{Limit: core.Shaping(10, core.PerSecond(1))}),
		"an unread set": Must(Follow(core.New(core.NewMemory()), Options{}, fixed{rules: Rules{Policies: [][]Policy{{{Limit: limit}}}, Choose: func(*http.Request, keyfuncs.Matched) []int { return nil }}})).current.Load().sets.unreadable.plain != nil,
	} {
		if not {
			t.Errorf("%s: plain", name)
		}
	}
}

// fixed are rules that never change.
type fixed struct{ rules Rules }

func (f fixed) Follow(prepare func(Rules) (func(), error)) error {
	use, err := prepare(f.rules)
	if err == nil {
		use()
	}
	return err
}
