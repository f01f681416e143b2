package guardtest

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var banCases = []testCase{
	{"responses strike, a ban is a 403 without limit fields, and its end is exact", testBanByResponse},
	{"a denial strikes in the same call", testBanByDenial},
	{"each request is a strike where Cost says so", testBanByRequest},
	{"Ban.Tell answers 429 with the exact Retry-After", testTellOfBan},
	{"who has failed and then succeeds is forgiven", testForgiven},
	{"a client that hangs up is not forgiven, and struck as any other", testGoneIsNotForgiven},
	{"strikes of a shadow ban nobody", testShadowBan},
	{"a ban that cannot be asked about is not invented", testBanWithoutStore},
	{"a peer of a private network is never banned by its own address", testOwnProxy},
	{"an address inside the trusted prefixes is never banned", testTrustedIsNeverBanned},
	{"beside places, no more than strikes and places are judged, however many come at once", testJudgedAtOnce},
	{"a handler that settles early hides no strike", testSettledBeforeStrike},
	{"the strike of an answer that is left to others is made together with its place being given back", testStruckWithThePlace},
}

// brute bans for a minute after three strikes, and then for two.
func brute() core.Ban {
	return core.Ban{Strikes: core.SlidingLog(3, time.Minute), First: time.Minute}.Named("brute")
}

// unauthorized is a strike for each 401.
func unauthorized(_ *http.Request, s guard.Served) int {
	if s.Status == http.StatusUnauthorized {
		return 1
	}
	return 0
}

// succeeded forgives all strikes for a 200.
func succeeded(_ *http.Request, s guard.Served) bool { return s.Status == http.StatusOK }

// login answers 200 to a client that knows the password, and otherwise 401.
func (f *fixture) login(w http.ResponseWriter, r *http.Request) {
	f.ran++
	status := http.StatusUnauthorized
	if r.Header.Get("Password") == "right" {
		status = http.StatusOK
	}
	w.WriteHeader(status)
}

// loginSite is a login that policies guard.
func (f *fixture) loginSite(policies ...guard.Policy) http.Handler {
	return f.serve(site{around: []middleware{f.limited(policies...)}, handler: f.login})
}

// left returns for how long the peer of a request is still banned.
func (f *fixture) left() time.Duration {
	f.t.Helper()
	key, err := keyfuncs.RemoteIP(ask(http.MethodGet, "/"))
	if err != nil {
		f.t.Fatal(err)
	}
	left, err := f.limiter.Banned(f.t.Context(), key, brute())
	if err != nil {
		f.t.Fatal(err)
	}
	return left
}

const bannedAnswer = `
403
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Request not satisfied due to detection of abnormal request pattern","status":403,"violated-policies":["brute"]}
`

func testBanByResponse(t *testing.T, s *suite) {
	f := s.fixture(t)
	rate := core.FixedWindow(100, time.Hour).Named("rate")
	h := f.loginSite(guard.Policy{Limit: rate}, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP})
	for range 3 {
		f.events = nil
		expectStatus(t, "a wrong password", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
	}
	if last := f.events[len(f.events)-1]; !last.Settled || last.Outcomes[1].Cost != 1 || !last.Outcomes[1].Decision.Began {
		t.Errorf("the third strike: %+v", last)
	}
	left := f.left()
	for range 2 {
		f.events = nil
		expect(t, "under the ban", get(h), bannedAnswer)
		if e := f.event(); !e.Banned() || len(e.Outcomes) != 1 || e.Outcomes[0].Policy != "brute" || e.Outcomes[0].Cost != 0 {
			t.Errorf("under the ban: %+v", e)
		}
	}
	f.expectRan(3)
	f.clock.advance(left - time.Microsecond)
	expectStatus(t, "one microsecond before its end", h, ask(http.MethodGet, "/items/7"), http.StatusForbidden)
	f.clock.advance(time.Microsecond)
	if got := answer(h, ask(http.MethodGet, "/items/7", "Password: right")); got.StatusCode != http.StatusOK || !strings.Contains(got.Header.Get("RateLimit"), "r=96") {
		t.Errorf("at its end: %d, %v", got.StatusCode, got.Header)
	}
	for range 3 {
		get(h)
	}
	if left := f.left(); left < 2*time.Minute || left > 132*time.Second {
		t.Errorf("the second ban lasts %v", left)
	}
}

func testGoneIsNotForgiven(t *testing.T, s *suite) {
	for name, status := range map[string]int{"no answer": 0, "a success": http.StatusOK, "a wrong password": http.StatusUnauthorized} {
		f := s.fixture(t)
		gone, leave := context.WithCancel(t.Context())
		h := f.serve(site{
			around: []middleware{f.limited(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP})},
			handler: func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Hang-Up") == "" {
					f.login(w, r)
					return
				}
				leave()
				if status != 0 {
					w.WriteHeader(status)
				}
			},
		})
		get(h)
		get(h)
		answer(h, ask(http.MethodGet, "/items/7", "Hang-Up: now").WithContext(gone))
		if status != http.StatusUnauthorized {
			get(h)
		}
		if f.left() == 0 {
			t.Errorf("%s to a client that has gone, among three wrong passwords: the client is not banned", name)
		}
	}
}

func testBanByDenial(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one()}, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), StrikeOnDenial: true}, By: keyfuncs.RemoteIP}))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests, http.StatusTooManyRequests, http.StatusForbidden, http.StatusForbidden} {
		f.events = nil
		expectStatus(t, "request", h, ask(http.MethodGet, "/items/7"), want)
		e, strikes := f.event(), 0
		if want == http.StatusTooManyRequests {
			strikes = 1
		}
		if got := e.Outcomes[len(e.Outcomes)-1].Cost; got != strikes {
			t.Errorf("status %d: %d strikes, want %d", want, got, strikes)
		}
	}
	f.expectAsked(6)
	if len(f.store.settled) > 0 {
		t.Errorf("settled %v, want nothing", f.store.settled)
	}
}

func testBanByRequest(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Ban: guard.BanPolicy{Ban: brute()}, By: keyfuncs.RemoteIP, Cost: func(r *http.Request) int {
		return len(r.Header.Get("Strikes"))
	}}))
	for range 5 {
		expectStatus(t, "no strike", h, ask(http.MethodGet, "/items/7"), http.StatusOK)
	}
	expectStatus(t, "two strikes", h, ask(http.MethodGet, "/items/7", "Strikes: xx"), http.StatusOK)
	expectStatus(t, "four strikes of three", h, ask(http.MethodGet, "/items/7", "Strikes: xx"), http.StatusOK)
	expectStatus(t, "no strike", h, ask(http.MethodGet, "/items/7"), http.StatusForbidden)
}

func testTellOfBan(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.loginSite(guard.Policy{Limit: ten()}, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded, Tell: true}, By: keyfuncs.RemoteIP})
	for range 3 {
		get(h)
	}
	f.clock.advance(f.left() - 1500*time.Millisecond)
	want := strings.ReplaceAll(strings.ReplaceAll(bannedAnswer, "403", "429"), "problem+json\n", "problem+json\nRetry-After: 2\n")
	expect(t, "told of the ban", get(h), want)
}

func testForgiven(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.loginSite(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP})
	for range 4 {
		expectStatus(t, "wrong", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
		expectStatus(t, "wrong", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
		expectStatus(t, "right", h, ask(http.MethodGet, "/items/7", "Password: right"), http.StatusOK)
	}
}

func testShadowBan(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.loginSite(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP, Shadow: true})
	for range 5 {
		f.events = nil
		expectStatus(t, "wrong", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
	}
	if o := f.events[0].Outcomes[0]; o.Decision.Allowed || !o.Shadow || f.events[0].Banned() {
		t.Errorf("the fifth request: %+v, want that the shadow would ban", o)
	}
	if left := f.left(); left != 0 {
		t.Errorf("banned for %v by a shadow", left)
	}
}

func testBanWithoutStore(t *testing.T, s *suite) {
	for mode, want := range map[guard.ErrorMode]int{
		guard.FailOpen: http.StatusOK, guard.Fallback: http.StatusOK, guard.FailClosed: http.StatusServiceUnavailable,
	} {
		f := s.fixture(t)
		h := f.around(f.limited(guard.Policy{Limit: ten(), OnError: mode}, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), StrikeOnDenial: true}, By: keyfuncs.RemoteIP, OnError: mode}))
		f.store.failure = errDown
		expectStatus(t, mode.String(), h, ask(http.MethodGet, "/items/7"), want)
	}
}

func testOwnProxy(t *testing.T, s *suite) {
	f := s.fixture(t)
	trusting := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	h := f.loginSite(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: trusting})
	for range 5 {
		for _, peer := range []string{"10.0.0.1:1", "127.0.0.1:1", "[::1]:1", "[fd00::1]:1", "100.64.0.1:1", "@"} {
			r := ask(http.MethodGet, "/items/7")
			r.RemoteAddr = peer
			expectStatus(t, peer, h, r, http.StatusUnauthorized)
		}
	}
	for i := range 5 { // a client that the proxy names
		r, want := ask(http.MethodGet, "/items/7", "X-Forwarded-For: 192.168.7.7"), http.StatusUnauthorized
		if r.RemoteAddr = "10.0.0.1:1"; i >= 3 {
			want = http.StatusForbidden
		}
		expectStatus(t, "through the proxy", h, r, want)
	}
}

func testTrustedIsNeverBanned(t *testing.T, s *suite) {
	const lb, edge = "10.0.0.7", "198.51.100.1:1" // a proxy that looks like a client
	prefixes := []string{"10.0.0.0/8", "198.51.100.0/24"}
	by := map[string]keyfuncs.Func{
		"X-Forwarded-For": keyfuncs.IP(keyfuncs.TrustedProxies(prefixes...)),
		"Forwarded":       keyfuncs.IP(keyfuncs.Forwarded(prefixes...)),
		"X-Real-Ip":       keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-Ip", prefixes...)),
	}
	for header, trusting := range by {
		f := s.fixture(t)
		var log bytes.Buffer
		options := f.options()
		options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		user := keyfuncs.Or(keyfuncs.Header("X-User"), keyfuncs.Global)
		spraying, guessing := brute(), core.Ban{Strikes: core.SlidingLog(3, time.Minute), First: time.Minute}.Named("guessing")
		h := f.serve(site{around: []middleware{f.new(f.limiter, options,
			guard.Policy{Ban: guard.BanPolicy{Ban: spraying, Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.Join(trusting, keyfuncs.Route)},
			guard.Policy{Ban: guard.BanPolicy{Ban: guessing, Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.Join(trusting, user)},
			deskPolicy(100),
		)}, handler: f.login})
		send := func(value string, lines ...string) int {
			if header == "Forwarded" && value != "" {
				value = "for=" + value
			}
			r := ask(http.MethodGet, "/items/7", lines...)
			if r.RemoteAddr = edge; value != "" {
				r.Header.Set(header, value)
			}
			return answer(h, r).StatusCode
		}
		for range 5 {
			for _, own := range []string{"", lb, "garbage"} { // no header, all trusted, and the peer pays
				if status := send(own); status != http.StatusUnauthorized {
					t.Errorf("%s: %q is answered %d", header, own, status)
				}
			}
		}
		if n := strings.Count(log.String(), "inside the trusted prefixes"); n != 1 || strings.Contains(log.String(), lb) {
			t.Errorf("%s: logged %q, want one line that names nobody", header, log.String())
		}
		for i := range 5 { // an inner client guesses one user's password
			want := http.StatusUnauthorized
			if i >= 3 {
				want = http.StatusForbidden
			}
			if status := send(lb, "X-User: alice"); status != want {
				t.Errorf("%s: guess %d for one user is answered %d", header, i, status)
			}
		}
		for i := range 5 {
			want := http.StatusUnauthorized
			if i >= 3 {
				want = http.StatusForbidden
			}
			if status := send("203.0.113.9"); status != want {
				t.Errorf("%s: request %d of a client is answered %d", header, i, status)
			}
		}
	}
}

// judges is a login that takes its time: it answers no client before a crowd has been decided about.
type judges struct {
	judged  atomic.Int64
	decided sync.WaitGroup // clients inside, and clients that are denied
	leaves  bool           // the answer is left to others
}

func (j *judges) judge(w http.ResponseWriter, r *http.Request) {
	j.judged.Add(1)
	j.decided.Done()
	j.decided.Wait()
	if !j.leaves {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func testJudgedAtOnce(t *testing.T, s *suite) {
	s.needScenes(t)
	const crowd, places = 500, 2
	for _, leaves := range []bool{false, true} {
		j := &judges{leaves: leaves}
		limiter := core.New(core.NewMemory())
		defer limiter.Close()
		ban := brute()
		left := 0
		if leaves {
			left = http.StatusUnauthorized
		}
		strike := func(_ *http.Request, s guard.Served) int {
			if s.Status == http.StatusUnauthorized || leaves && s.Unanswered {
				return 1
			}
			return 0
		}
		h := s.play(scene{
			limiters: []middleware{s.new(limiter, guard.Options{},
				guard.Policy{Ban: guard.BanPolicy{Ban: ban, Strike: strike}, By: keyfuncs.RemoteIP},
				guard.Policy{Limit: desk(places), By: keyfuncs.RemoteIP},
			)},
			handler: j.judge, error: left,
		})
		if left != 0 && answer(s.play(scene{handler: func(http.ResponseWriter, *http.Request) {}, error: left}), ask(http.MethodGet, "/")).StatusCode != left {
			continue // its handlers leave no errors
		}
		banned := 0
		for round := 0; banned < crowd; round++ {
			if round > 10 {
				t.Fatalf("after %d rounds, %d of %d are banned", round, banned, crowd)
			}
			j.decided.Add(crowd)
			var status [crowd]int
			var clients sync.WaitGroup
			for i := range crowd {
				clients.Go(func() {
					status[i] = answer(h, ask(http.MethodGet, "/")).StatusCode
					if status[i] != http.StatusUnauthorized {
						j.decided.Done()
					}
				})
			}
			clients.Wait()
			banned = 0
			for _, got := range status {
				if got == http.StatusForbidden {
					banned++
				}
			}
		}
		if n := j.judged.Load(); n < 3 || n > 3+places {
			t.Errorf("%d were judged, want 3 to %d", n, 3+places)
		}
	}
}

func testStruckWithThePlace(t *testing.T, s *suite) {
	s.needScenes(t)
	for _, outside := range []Outside{Nothing, Answers, AnswersRaw, Swallows} {
		calls := &settleCalls{Store: core.NewMemory()}
		limiter := core.New(calls)
		seen := make(chan int, 1)
		server := listen(t, s.play(scene{
			limiters: []middleware{s.new(limiter, guard.Options{},
				deskPolicy(1),
				guard.Policy{Ban: guard.BanPolicy{
					Ban: brute(),
					Strike: func(*http.Request, guard.Served) int {
						seen <- taken(t, limiter, desk(1))
						return 1
					},
				}, By: keyfuncs.Global},
			)},
			outside: outside, handler: func(http.ResponseWriter, *http.Request) {}, error: http.StatusUnauthorized,
		}))
		response, err := http.Get(server.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if n := <-seen; n != 1 {
			t.Errorf("%v: %d places are taken before the strike, want 1", outside, n)
		}
		awaitTaken(t, limiter, desk(1), 0)
		limiter.Close()
		if n := calls.calls.Load(); n != 1 {
			t.Errorf("%v: settled in %d calls, want 1", outside, n)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}

func testSettledBeforeStrike(t *testing.T, s *suite) {
	s.need(t, Streaming)
	for name, c := range map[string]struct {
		before, after bool // Settle is called before the answer begins, and after that
		outcomes      int
	}{"before the answer": {true, false, 0}, "after it has begun": {false, true, 2}, "both": {true, true, 2}} {
		f := s.fixture(t)
		settles := func(when string, r *http.Request, want int) {
			if got := guard.Settle(r.Context()); len(got) != want {
				t.Errorf("%s: Settle %s the answer has begun returns %+v, want %d outcomes", name, when, got, want)
			}
		}
		h := f.serve(site{
			around: []middleware{f.limited(
				guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(7)}},
				guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP},
			)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				if c.before {
					settles("before", r, 0)
				}
				f.login(w, r)
				_, _ = w.Write([]byte("no")) // gin holds a status back until then
				if c.after {
					settles("when", r, c.outcomes)
				}
			},
		})
		for range 3 {
			expectStatus(t, name+": a wrong password", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
		}
		expectStatus(t, name+": the fourth", h, ask(http.MethodGet, "/items/7"), http.StatusForbidden)
		f.expectRan(3)
		f.expectUsed(hundred(), 21)
	}
}
