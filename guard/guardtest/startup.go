package guardtest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var startupCases = []testCase{
	{"a mistake panics when the middleware is made, with the reason", testMistakes},
	{"what looks like a mistake and is none does not panic", testNoMistakes},
	{"making a middleware asks nobody", testSilentStart},
}

func testMistakes(t *testing.T, s *suite) {
	l := core.New(core.NewMemory())
	limitFor := func(*http.Request) core.Limit { return ten() }
	minute := func(n int, name string) guard.Policy {
		return guard.Policy{Limit: core.FixedWindow(n, time.Minute).Named(name)}
	}
	for name, c := range map[string]struct {
		build  func()
		reason string
	}{
		"no limiter":      {func() { s.new(nil, guard.Options{}, guard.Policy{Limit: ten()}) }, "the limiter is nil"},
		"no policy":       {func() { s.new(l, guard.Options{}) }, "no policy given"},
		"an empty policy": {func() { s.new(l, guard.Options{}, guard.Policy{}) }, "policy 0 has no limit: set Limit or LimitFor"},
		"two limits": {func() {
			s.new(l, guard.Options{}, guard.Policy{Limit: ten()}, guard.Policy{Limit: ten(), LimitFor: limitFor})
		}, "policy 1 has both a Limit (leaky 10, 1/s) and a LimitFor: leave one of them out"},
		"a bad limit":       {func() { s.new(l, guard.Options{}, minute(0, "none")) }, "capacity 0"},
		"a bad name":        {func() { s.new(l, guard.Options{}, minute(1, "per minute")) }, `"per minute"`},
		"one name":          {func() { s.new(l, guard.Options{}, minute(1, "api"), minute(2, "api")) }, `policies 0 and 1 are both named "api"`},
		"one name in case":  {func() { s.new(l, guard.Options{}, minute(1, "api"), minute(2, "b"), minute(2, "API")) }, `policies 0 and 2 are both named "API"`},
		"a bad mode of one": {func() { s.new(l, guard.Options{}, guard.Policy{Limit: ten(), OnError: -1}) }, "policy 0: OnError is ErrorMode(-1)"},
		"a bad unit": {func() {
			s.new(l, guard.Options{}, minute(1, "api"), guard.Policy{Limit: ten(), Unit: "Bäume"})
		}, `policy 1: headers: the unit "Bäume" is not printable ASCII`},
		"replicas": {func() { s.new(l, guard.Options{Replicas: -1}, minute(1, "api")) }, "-1 replicas are less than none: give the number of processes"},
		"nobody delayed": {func() {
			s.new(l, guard.Options{}, minute(1, "api"), guard.Policy{Limit: ten(), Queue: guard.QueuePolicy{Undelayed: 3}})
		}, "policy 1: Queue.Undelayed is 3, but leaky 10, 1/s delays no request: use core.Shaping"},
		"a name of ours": {func() { s.new(l, guard.Options{}, minute(1, "weir-api")) }, `policy 0: core: limit name "weir-api" begins with "weir-"`},
		"a bad mode":     {func() { s.new(l, guard.Options{OnError: 7}, minute(1, "api")) }, "OnError is ErrorMode(7)"},
		"a bad leaky":    {func() { s.meters["leaky"](l, 0, core.PerSecond(1)) }, "capacity 0"},
		"a bad drain":    {func() { s.meters["leaky"](l, 1, core.PerSecond(0)) }, "rate of 0 events"},
		"a bad shaping":  {func() { s.meters["shaping"](l, -1, core.PerSecond(1)) }, "capacity -1"},
		"a bad bucket":   {func() { s.meters["token-bucket"](l, 1, core.Per(1, 0)) }, "period"},
		"a bad gcra":     {func() { s.meters["gcra"](nil, 1, core.PerSecond(1)) }, "the limiter is nil"},
		"a bad window":   {func() { s.windows["fixed-window"](l, 1, -time.Second) }, "period -1s"},
		"a bad sliding":  {func() { s.windows["sliding-window"](l, 1, 0) }, "period 0s"},
		"a bad log":      {func() { s.windows["sliding-log"](l, 0, time.Second) }, "capacity 0"},
	} {
		t.Run(name, func(t *testing.T) { expectPanic(t, c.build, "ratelimit: ", c.reason) })
	}
	t.Run("a nil function", func(t *testing.T) {
		expectPanic(t, func() { s.meters["leaky"](l, 1, core.PerSecond(1), nil) }, "keyfuncs: ", "nil")
		for name, build := range map[string]func(){
			"Join: function 1 of 1": func() { keyfuncs.Join(nil) },
			"Or: function 2 of 2":   func() { keyfuncs.Or(keyfuncs.RemoteIP, nil) },
			"Join: no function":     func() { keyfuncs.Join() },
		} {
			expectPanic(t, build, "keyfuncs: ", name)
		}
	})
}

// expectPanic wants build to panic with words that begin so and have the reason.
func expectPanic(t *testing.T, build func(), start, reason string) {
	t.Helper()
	defer func() {
		t.Helper()
		message, _ := recover().(string)
		if !strings.HasPrefix(message, start) || !strings.Contains(message, reason) {
			t.Errorf("panic %q, want one that starts with %q and says %q", message, start, reason)
		}
	}()
	build()
}

func testNoMistakes(t *testing.T, s *suite) {
	l := core.New(core.NewMemory())
	s.new(l, guard.Options{}, guard.Policy{Limit: one()}, guard.Policy{Limit: one(), Shadow: true})
	s.new(l, guard.Options{}, guard.Policy{Limit: ten()}, guard.Policy{Limit: ten(), By: keyfuncs.Global})
	s.new(l, guard.Options{}, guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.Unlimited }})
	s.new(l, guard.Options{}, guard.Policy{Limit: core.Shaping(10, core.PerSecond(1)), Queue: guard.QueuePolicy{Undelayed: 3}})
	s.new(l, guard.Options{}, guard.Policy{Limit: ten(), Unit: "a word of one's own"})
}

func testSilentStart(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.around(f.limited(guard.Policy{Limit: ten()}))
	f.expectAsked(0)
}
