package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// fromHeader is a key that stands in a header; "broken" cannot be found out.
func fromHeader(r *http.Request) (string, error) {
	switch key := r.Header.Get("X-Key"); key {
	case "none":
		return "", keyfuncs.ErrNoKey
	case "broken":
		return "", errDown
	default:
		return key, nil
	}
}

// The order is: Allow by address or key, then Deny by either, then the policies.
func TestAllowWinsOverDenyWinsOverThePolicies(t *testing.T) {
	var events []guard.Event
	g := guard.Must(guard.New(memory(), guard.Options{
		Lists: guard.Lists{
			Allow: lists.Of("198.51.100.1", "key:friend"),
			Deny:  lists.Of("198.51.100.0/24", "key:foe", "key:friend"),
			By:    fromHeader,
		},
		Observe: func(e guard.Event) { events = append(events, e) },
		Logger:  slog.New(slog.DiscardHandler),
	}, guard.Policy{Limit: core.FixedWindow(1, time.Hour), By: keyfuncs.Global}))
	g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil) // uses the limit up
	for _, row := range []struct {
		address, key string
		status       int
		listed       bool
	}{
		{"198.51.100.1", "", 0, true},
		{"198.51.100.1", "foe", 0, true},
		{"198.51.100.1", "broken", 0, true},
		{"198.51.100.2", "friend", 0, true},
		{"192.0.2.1", "friend", 0, true},
		{"198.51.100.2", "", http.StatusForbidden, true},
		{"198.51.100.2", "none", http.StatusForbidden, true},
		{"192.0.2.1", "foe", http.StatusForbidden, true},
		{"192.0.2.1", "Foe", http.StatusTooManyRequests, false},
		{"192.0.2.1", "", http.StatusTooManyRequests, false},
		{"192.0.2.1", "none", http.StatusTooManyRequests, false},
		{"192.0.2.1", "broken", http.StatusInternalServerError, false},
		{"198.51.100.2", "broken", http.StatusInternalServerError, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = row.address + ":1"
		r.Header.Set("X-Key", row.key)
		events = nil
		verdict := g.Decide(r, nil)
		status := 0
		if verdict.Denial != nil {
			status = verdict.Denial.Status
		}
		if status != row.status || len(events) != 1 || events[0].Status != status || events[0].Listed != row.listed {
			t.Errorf("%s with the key %q: status %d, events %+v, want %d, %v", row.address, row.key, status, events, row.status, row.listed)
		}
	}
}

// A key that cannot be found out is a mistake of the program's, and the log says so.
func TestAKeyOfListsThatCannotBeFoundOutIsLogged(t *testing.T) {
	var log journal
	var event guard.Event
	options := log.options()
	options.Lists = guard.Lists{Deny: lists.Of("key:foe"), By: fromHeader}
	options.Observe = func(e guard.Event) { event = e }
	g := guard.Must(guard.New(memory(), options,
		guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one"), By: keyfuncs.RemoteIP}, guard.Policy{Limit: core.FixedWindow(2, time.Hour).Named("two"), By: keyfuncs.RemoteIP}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Key", "broken")
	g.Decide(r, nil)
	if !errors.Is(event.Err, errDown) || !strings.HasPrefix(event.Err.Error(), "ratelimit: Lists.By: ") || len(event.Unanswered) != 2 || event.Unanswered[1].Policy != "two" {
		t.Errorf("event %+v", event)
	}
	if lines := log.take(t); len(lines) != 1 || lines[0]["msg"] != "ratelimit: a call could not be answered" {
		t.Errorf("logged %v", lines)
	}
}

func TestADenialByAListIsLoggedAtDebugWithoutAName(t *testing.T) {
	var log journal
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options := guard.Options{Lists: guard.Lists{Deny: lists.Of("192.0.2.0/24")}, Logger: logger}
	guard.Must(guard.New(memory(), options, guard.Policy{Limit: core.FixedWindow(1, time.Hour)})).Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	lines := log.take(t)
	if len(lines) != 1 || lines[0]["msg"] != "ratelimit: a request is denied by a list" || lines[0]["level"] != "DEBUG" || len(lines[0]) != 3 {
		t.Errorf("logged %v", lines)
	}
}

func TestListsThatMakeNoSenseAreRefusedAtTheStart(t *testing.T) {
	keys := lists.Of("key:user:1", "key:user:2")
	live := new(lists.Live)
	live.Swap(keys)
	for want, l := range map[string]guard.Lists{
		"Options.Lists.Deny has 2 keys, and By is nil: set By, which finds the key of a request":  {Deny: keys},
		"Options.Lists.Allow has 2 keys, and By is nil: set By, which finds the key of a request": {Allow: live},
		"Options.Lists has neither Allow nor Deny: leave Address and By out, too":                 {By: keyfuncs.RemoteIP},
		"Options.Lists has neither Allow nor Deny: leave Address and By out, too.":                {Address: keyfuncs.Address()},
	} {
		_, err := guard.New(memory(), guard.Options{Lists: l}, guard.Policy{Limit: core.FixedWindow(1, time.Hour)})
		if err == nil || err.Error() != "ratelimit: "+strings.TrimSuffix(want, ".") {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for _, l := range []guard.Lists{{}, {Deny: lists.Of("192.0.2.1")}, {Deny: new(lists.Live)}, {Allow: keys, By: fromHeader}} {
		if _, err := guard.New(memory(), guard.Options{Lists: l}, guard.Policy{Limit: core.FixedWindow(1, time.Hour)}); err != nil {
			t.Error(err)
		}
	}
}

// Behind a proxy that nobody has named, a list with the proxy's address is one of everybody.
func TestListsBehindAProxyThatNobodyHasNamedAreWarnedOf(t *testing.T) {
	forwarded := httptest.NewRequest(http.MethodGet, "/", nil)
	forwarded.Header.Set("X-Forwarded-For", "203.0.113.9")
	const warning = "ratelimit: requests carry a header of a proxy's, and lists look up the TCP peer: behind a proxy, that is the proxy for all clients"
	for name, row := range map[string]struct {
		lists guard.Lists
		by    keyfuncs.Func
		want  []string // what messages contain
	}{
		"the lists alone":       {guard.Lists{Allow: lists.Of("192.0.2.0/24")}, keyfuncs.RemoteIP, []string{warning}},
		"the policy, too":       {guard.Lists{Deny: lists.Of("203.0.113.0/24")}, nil, []string{"the default key is the TCP peer", warning}},
		"an address is named":   {guard.Lists{Deny: lists.Of("203.0.113.0/24"), Address: keyfuncs.Address()}, keyfuncs.RemoteIP, nil},
		"there are no lists":    {guard.Lists{}, keyfuncs.RemoteIP, nil},
		"the policy, not lists": {guard.Lists{}, nil, []string{"the default key is the TCP peer"}},
	} {
		var log journal
		options := log.options()
		options.Lists = row.lists
		g := guard.Must(guard.New(memory(), options, guard.Policy{Limit: core.FixedWindow(100, time.Hour), By: row.by}))
		for range 3 {
			g.Decide(forwarded, nil)
		}
		lines := log.take(t)
		if len(lines) != len(row.want) {
			t.Errorf("%s: logged %v, want %q", name, lines, row.want)
			continue
		}
		for i, want := range row.want {
			if message, _ := lines[i]["msg"].(string); !strings.Contains(message, want) {
				t.Errorf("%s: logged %v, want %q", name, lines[i], want)
			}
		}
	}
}

// An allowed request has no decisions, and its handler's own middleware decides as usual.
func TestAnAllowedRequestIsLeftAlone(t *testing.T) {
	allowed := guard.Lists{Allow: lists.Of("192.0.2.0/24")}
	settled := false
	policy := guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("outer"), Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { settled = true; return 5 }}}
	inner := ratelimit.FixedWindow(memory(), 1, time.Hour)
	h := ratelimit.New(memory(), guard.Options{Lists: allowed}, policy)(inner(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := len(guard.OutcomesFrom(r.Context())); n != 1 {
			t.Errorf("%d decisions, want that of the limiter inside", n)
		}
	})))
	if response := get(h, "/"); response.StatusCode != http.StatusOK || strings.Contains(response.Header.Get("RateLimit-Policy"), "outer") {
		t.Errorf("status %d, %s", response.StatusCode, response.Header.Get("RateLimit-Policy"))
	}
	if response := get(h, "/"); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d, want the denial of the limiter inside", response.StatusCode)
	}
	if settled {
		t.Error("what was never charged is settled")
	}
}

// Over a real server, lists change while clients send requests: each request meets one of
// the lists.
func TestListsChangeWhileRequestsAreServed(t *testing.T) {
	deny := new(lists.Live)
	deny.Swap(lists.Of("203.0.113.1", "203.0.113.2"))
	server := httptest.NewServer(ratelimit.New(memory(), guard.Options{Lists: guard.Lists{
		Allow:   lists.Of("203.0.113.1"),
		Deny:    deny,
		Address: keyfuncs.Address(keyfuncs.TrustedProxies("127.0.0.1")),
	}}, guard.Policy{Limit: core.FixedWindow(1_000_000, time.Hour), By: keyfuncs.Global})(http.HandlerFunc(ok)))
	defer server.Close()
	ask := func(address string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("X-Forwarded-For", address)
		response, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	ctx, end := context.WithCancel(t.Context())
	var swapping, clients sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			deny.Swap(lists.Of("203.0.113.0/24"))
			deny.Swap(lists.Of("203.0.113.1", "203.0.113.2"))
		}
	})
	for range 4 {
		clients.Go(func() {
			for range 50 {
				if got := [...]int{ask("203.0.113.1"), ask("203.0.113.2"), ask("198.51.100.1")}; got != [...]int{200, 403, 200} {
					t.Errorf("statuses %v, want 200 for the allowed, 403 for the denied, 200 for the other", got)
				}
				if status := ask("203.0.113.3"); status != http.StatusOK && status != http.StatusForbidden {
					t.Errorf("status %d", status)
				}
			}
		})
	}
	clients.Wait()
	end()
	swapping.Wait()
	deny.Swap(nil)
	if status := ask("203.0.113.2"); status != http.StatusOK {
		t.Errorf("status %d after the list was emptied", status)
	}
}

// A list that is swapped while the key of a request is found out is the old one or the new one for that request:
// the address is not looked up in the one, and the key in the other.
func TestARequestMeetsOneListWhateverItsKeyTakes(t *testing.T) {
	byKey, byAddress := lists.Of("key:user:42"), lists.Of("192.0.2.1")
	for name, of := range map[string]func(*lists.Live) guard.Lists{
		"allowed": func(l *lists.Live) guard.Lists { return guard.Lists{Allow: l} },
		"denied":  func(l *lists.Live) guard.Lists { return guard.Lists{Deny: l} },
	} {
		live := new(lists.Live)
		live.Swap(byKey)
		both := of(live)
		both.By = func(*http.Request) (string, error) {
			live.Swap(byAddress)
			return "user:42", nil
		}
		listed := false
		h := ratelimit.New(memory(), guard.Options{Lists: both, Observe: func(e guard.Event) { listed = e.Listed }},
			guard.Policy{Limit: core.FixedWindow(1, time.Hour)})(http.HandlerFunc(ok))
		get(h, "/")
		if !listed {
			t.Errorf("who is %s by both lists is in neither", name)
		}
	}
}

// BenchmarkLists is a middleware without lists, and with two of 10,000 prefixes of which none
// contains the client.
func BenchmarkLists(b *testing.B) {
	var entries []string
	for i := range 10_000 {
		entries = append(entries, netip.AddrFrom4([4]byte{192, byte(1 + i>>8), byte(i), 0}).String()+"/28")
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, l := range map[string]guard.Lists{"without": {}, "with": {Allow: lists.Of(entries...), Deny: lists.Of(entries...)}} {
		b.Run(name, func(b *testing.B) {
			g := guard.Must(guard.New(memory(), guard.Options{Lists: l}, guard.Policy{Limit: core.FixedWindow(1<<40, time.Hour)}))
			b.ReportAllocs()
			for b.Loop() {
				g.Decide(r, nil)
			}
		})
	}
}
