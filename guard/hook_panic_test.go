package guard_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func panics() { panic("a hook") }

// panickingParts are parts of a limiter that panic when they are asked anything.
type (
	panickingList    struct{ keys int }
	panickingHandler struct{ slog.Handler }
	panickingRules   struct{ guard.Rules }
)

func (panickingList) Has(netip.Addr, string) bool { panics(); return false }
func (l panickingList) Keys() int                 { return l.keys }

func (h panickingHandler) Enabled(ctx context.Context, l slog.Level) bool { panics(); return false }

func (r panickingRules) Follow(prepare func(guard.Rules) (func(), error)) error {
	use, err := prepare(r.Rules)
	if err == nil {
		use()
	}
	return err
}

// hookSetup is how a hook panics.
type hookSetup struct {
	// change sets the hook in the options, in the policy or, unless it is nil, in the rules.
	change func(o *guard.Options, p *guard.Policy, r *guard.Rules)
	// contained says that the request goes on as if the hook had returned.
	contained bool
	// late says that the handler has run before.
	late bool
	// denied says that the request is denied.
	denied bool
}

var hookSetups = map[string]hookSetup{
	"Options.Headers": {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) { o.Headers = panickingWriter{} }},
	"Options.Denied": {denied: true, change: func(o *guard.Options, p *guard.Policy, _ *guard.Rules) {
		o.Denied = func(http.ResponseWriter, *http.Request, *guard.Denial) { panics() }
		p.Cost = func(*http.Request) int { return 1000 }
	}},
	"Options.Observe": {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) { o.Observe = func(guard.Event) { panics() } }},
	"Options.Logger": {contained: true, denied: true, change: func(o *guard.Options, p *guard.Policy, _ *guard.Rules) {
		o.Logger = slog.New(panickingHandler{slog.DiscardHandler})
		p.Cost = func(*http.Request) int { return 1000 }
	}},
	"Lists.Allow": {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) { o.Lists.Allow = panickingList{} }},
	"Lists.Deny":  {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) { o.Lists.Deny = panickingList{} }},
	"Lists.Address": {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) {
		o.Lists.Deny, o.Lists.Address = panickingList{}, func(*http.Request) netip.Addr { panics(); return netip.Addr{} }
	}},
	"Lists.By": {change: func(o *guard.Options, _ *guard.Policy, _ *guard.Rules) {
		o.Lists.Deny, o.Lists.By = panickingList{1}, func(*http.Request) (string, error) { panics(); return "", nil }
	}},
	"Policy.By": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.By = func(*http.Request) (string, error) { panics(); return "", nil }
	}},
	"Policy.Cost": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Cost = func(*http.Request) int { panics(); return 0 }
	}},
	"Policy.Headroom": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Headroom = func(*http.Request) int { panics(); return 0 }
	}},
	"Policy.Share": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Limit, p.Share = core.Leaky(50, core.PerHour(50)).Named("own"), func(*http.Request) (string, error) { panics(); return "", nil }
	}},
	"Policy.Weight": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Limit, p.Share = core.Leaky(50, core.PerHour(50)).Named("own"), keyfuncs.Global
		p.Weight = func(*http.Request) int { panics(); return 0 }
	}},
	"Policy.Skip": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Skip = func(*http.Request) bool { panics(); return false }
	}},
	"Policy.LimitFor": {change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Limit, p.LimitFor = nil, func(*http.Request) core.Limit { panics(); return nil }
	}},
	"SettlePolicy.Cost": {late: true, change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Settle.Cost = func(*http.Request, guard.Served) int { panics(); return 0 }
	}},
	"BanPolicy.Strike": {late: true, change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Limit, p.Ban.Ban = nil, core.Ban{Strikes: core.SlidingLog(5, time.Minute)}
		p.Ban.Strike = func(*http.Request, guard.Served) int { panics(); return 0 }
	}},
	"BanPolicy.Forgive": {late: true, change: func(_ *guard.Options, p *guard.Policy, _ *guard.Rules) {
		p.Limit, p.Ban.Ban = nil, core.Ban{Strikes: core.SlidingLog(5, time.Minute)}
		p.Ban.Forgive = func(*http.Request, guard.Served) bool { panics(); return false }
	}},
	"Rules.Choose": {change: func(_ *guard.Options, _ *guard.Policy, r *guard.Rules) {
		r.Choose = func(*http.Request, keyfuncs.Matched) []int { panics(); return []int{0} }
	}},
}

// panickingWriter is a dialect of the limits' fields, which panics where a request is answered.
type panickingWriter struct{}

func (panickingWriter) Write(h http.Header, _ []headers.Outcome) {
	if h.Get("Answer") != "" {
		panics()
	}
}

// hooksOf returns the fields of a type that hold somebody else's code.
func hooksOf(of reflect.Type, but ...string) (names []string) {
fields:
	for f := range of.Fields() {
		if !f.IsExported() {
			continue
		}
		for _, name := range but {
			if f.Name == name {
				continue fields
			}
		}
		if kind := f.Type.Kind(); kind == reflect.Func || kind == reflect.Interface && f.Type != reflect.TypeFor[core.Limit]() || f.Type == reflect.TypeFor[*slog.Logger]() {
			names = append(names, of.Name()+"."+f.Name)
		}
	}
	return names
}

// A hook that panics on the goroutine of a request panics further, as a handler does, and the request leaves nothing
// behind: no place is held, what was reserved is given back, or settled if the handler has run, and the next request
// finds everything as before. A new hook needs a line in hookSetups.
func TestAHookThatPanicsLeavesNothingBehind(t *testing.T) {
	names := hooksOf(reflect.TypeFor[guard.Options](), "Draining")
	names = append(names, hooksOf(reflect.TypeFor[guard.Lists]())...)
	names = append(names, hooksOf(reflect.TypeFor[guard.Policy]())...)
	names = append(names, hooksOf(reflect.TypeFor[guard.BanPolicy]())...)
	names = append(names, hooksOf(reflect.TypeFor[guard.SettlePolicy]())...)
	names = append(names, hooksOf(reflect.TypeFor[guard.Rules]())...)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			setup, known := hookSetups[name]
			if !known {
				t.Fatal("a new hook needs a test that panics in it")
			}
			bubbletest.Run(t, func(t *testing.T) { testHookThatPanics(t, setup) })
		})
	}
}

func testHookThatPanics(t *testing.T, setup hookSetup) {
	limiter := memory()
	defer limiter.Close()
	room, quota := core.Concurrent(1, 10*time.Minute), core.FixedWindow(100, time.Hour).Named("quota")
	global := keyfuncs.Global
	options, own := guard.Options{Logger: slog.New(slog.DiscardHandler)}, guard.Policy{Limit: core.FixedWindow(50, time.Hour).Named("own"), By: global}
	rules := guard.Rules{}
	setup.change(&options, &own, &rules)
	rules.Policies = [][]guard.Policy{{
		{Limit: room, By: global},
		{Limit: quota, By: global, Cost: func(*http.Request) int { return 10 }, Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 3 }}},
		own,
	}}
	handle, err := guard.Follow(limiter, options, panickingRules{rules})
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for range 2 {
		reached := func() (reached any) {
			defer func() { reached = recover() }()
			serveBy(handle, func(w http.ResponseWriter, _ *http.Request) { served++; w.WriteHeader(http.StatusAccepted) })
			return nil
		}()
		if (reached == nil) != setup.contained {
			t.Errorf("the panic has reached the server as %v, want it contained: %t", reached, setup.contained)
		}
		synctest.Wait()
		if d, err := limiter.Peek(t.Context(), "global", room); err != nil || d.Remaining != 1 {
			t.Fatalf("%+v, %v: the place is held", d, err)
		}
	}
	ran, want := 0, 0
	if setup.late || setup.contained && !setup.denied {
		ran, want = 2, 2*3
	}
	if d, err := limiter.Peek(t.Context(), "global", quota); err != nil || 100-d.Remaining != want || served != ran {
		t.Errorf("%d of the quota are used, %v, and %d requests were served, want %d and %d", 100-d.Remaining, err, served, want, ran)
	}
}

// serveBy serves a request as an adapter does.
func serveBy(handle *guard.Guard, handler http.HandlerFunc) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	w.Header().Set("Answer", "yes")
	verdict := handle.Decide(r, nil)
	verdict.WriteHeader(w.Header())
	if verdict.Denial != nil {
		verdict.Denial.ServeHTTP(w, verdict.Request)
		return
	}
	verdict.Serve(w, func(w http.ResponseWriter, r *http.Request) int {
		handler(w, r)
		return 0
	})
}

// Where nobody answers a request that its handler has left, it is settled on a goroutine of its own when it ends: a hook
// that panics there is logged, and a logger that panics, too, does not end the process.
func TestAHookThatPanicsWhenTheRequestHasEndedEndsNothing(t *testing.T) {
	settle := func(*http.Request, guard.Served) int { panics(); return 0 }
	observe := func(e guard.Event) {
		if e.Settled {
			panics()
		}
	}
	for name, c := range map[string]struct {
		options guard.Options
		settle  func(*http.Request, guard.Served) int
	}{
		"Settle":  {guard.Options{Logger: slog.New(panickingHandler{slog.DiscardHandler})}, settle},
		"Observe": {guard.Options{Logger: slog.New(panickingHandler{slog.DiscardHandler}), Observe: observe}, func(*http.Request, guard.Served) int { return 3 }},
		"both":    {guard.Options{Logger: slog.New(panickingHandler{slog.DiscardHandler}), Observe: observe}, settle},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				limiter, room := memory(), core.Concurrent(1, 10*time.Minute)
				defer limiter.Close()
				g := guard.Must(guard.New(limiter, c.options,
					guard.Policy{Limit: room, By: keyfuncs.Global},
					guard.Policy{Limit: core.FixedWindow(9, time.Hour), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: c.settle}}))
				ctx, end := context.WithCancel(t.Context())
				admitted(t, g, ctx).Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return http.StatusUnauthorized })
				end()
				synctest.Wait()
				if d, err := limiter.Peek(t.Context(), "global", room); err != nil || d.Remaining != 1 {
					t.Errorf("%+v, %v: the place is held", d, err)
				}
			})
		})
	}
}
