package guard_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// line returns the place of a line near the caller's, as a log tells it.
func line(below int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line+below)
}

func TestTwoEqualLimitsAreNoticed(t *testing.T) {
	var log journal
	limiter := memory()
	first, second := line(1), line(3)
	ratelimit.New(limiter, log.options(), guard.PolicyFor(core.Leaky(10, core.PerSecond(1))))
	log.expectNothing(t)
	ratelimit.New(limiter, log.options(), guard.PolicyFor(core.Leaky(10, core.PerSecond(1))))
	log.expectWarning(t, "leaky:10:1/s", first, second, `Named("search")`, "keyfuncs.Route")
	ratelimit.New(limiter, log.options(), guard.PolicyFor(core.Leaky(10, core.PerSecond(1))))
	log.expectNothing(t) // once is enough
}

// The one-liners have no place for a logger.
func TestTwoEqualOneLinersAreNoticed(t *testing.T) {
	log := defaultJournal(t)
	limiter := memory()
	first, second := line(1), line(2)
	_ = ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	_ = ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	log.expectWarning(t, first, second)
}

func TestLimitsThatAreNotOneAreNoMistake(t *testing.T) {
	leaky := core.Leaky(10, core.PerSecond(1))
	limitFor := func(*http.Request) core.Limit { return leaky }
	for name, build := range map[string]func(l *core.Limiter, options guard.Options){
		"other numbers": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky))
			ratelimit.New(l, o, guard.PolicyFor(core.Leaky(11, core.PerSecond(1))))
		},
		"another algorithm": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky))
			ratelimit.New(l, o, guard.PolicyFor(core.GCRA(10, core.PerSecond(1))))
		},
		"no limit": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(core.Unlimited))
			ratelimit.New(l, o, guard.PolicyFor(core.Unlimited))
		},
		"another limiter": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky))
			ratelimit.New(memory(), o, guard.PolicyFor(leaky))
		},
		"names": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky.Named("a")))
			ratelimit.New(l, o, guard.PolicyFor(leaky.Named("b")))
		},
		"one name, on purpose": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky.Named("a")))
			ratelimit.New(l, o, guard.PolicyFor(leaky.Named("a")))
		},
		"keys that are written down": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky, keyfuncs.RemoteIP, keyfuncs.Route))
			ratelimit.New(l, o, guard.PolicyFor(leaky, keyfuncs.RemoteIP, keyfuncs.Route))
			ratelimit.New(l, o, guard.PolicyFor(leaky))
		},
		"limits per request": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.Policy{LimitFor: limitFor})
			ratelimit.New(l, o, guard.Policy{LimitFor: limitFor})
		},
		"a shadow beside what it is to replace": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky))
			ratelimit.New(l, o, guard.Policy{Limit: leaky, Shadow: true})
		},
		"two policies of one middleware": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky), guard.PolicyFor(leaky))
		},
		"one middleware on two routes": func(l *core.Limiter, o guard.Options) {
			limit := ratelimit.New(l, o, guard.PolicyFor(leaky))
			mux := http.NewServeMux()
			mux.Handle("/a", limit(fine))
			mux.Handle("/b", limit(fine))
		},
		"a handler that is built again, as in tests": func(l *core.Limiter, o guard.Options) {
			handler := func() http.Handler { return ratelimit.New(l, o, guard.PolicyFor(leaky))(fine) }
			for range 10 {
				_ = handler()
			}
			_ = handler()
		},
		"a mistake that panics": func(l *core.Limiter, o guard.Options) {
			ratelimit.New(l, o, guard.PolicyFor(leaky))
			defer func() { _ = recover() }()
			ratelimit.New(l, o, guard.PolicyFor(leaky), guard.Policy{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			build(memory(), log.options())
			log.expectNothing(t)
		})
	}
}

func TestTwoEqualShadowsAndLayersAreNoticed(t *testing.T) {
	leaky := core.Leaky(10, core.PerSecond(1))
	user := guard.PolicyFor(core.GCRA(10, core.PerSecond(1)), keyfuncs.Header("X-Api-Key"))
	for name, policies := range map[string][]guard.Policy{
		"shadows":      {{Limit: leaky, Shadow: true}},
		"layers":       guard.Layers(guard.PolicyFor(leaky), user),
		"among others": {user, guard.PolicyFor(leaky.Named("named")), guard.PolicyFor(leaky)},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			limiter := memory()
			ratelimit.New(limiter, log.options(), policies...)
			ratelimit.New(limiter, log.options(), policies...)
			log.expectWarning(t, "leaky:10:1/s")
		})
	}
}

func TestEqualLimitsAreNoticedOnceHoweverManyBuild(t *testing.T) {
	var log journal
	limiter, leaky := memory(), core.Leaky(10, core.PerSecond(1))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				ratelimit.New(limiter, log.options(), guard.PolicyFor(leaky))
				ratelimit.New(limiter, log.options(), guard.PolicyFor(leaky))
			}
		})
	}
	group.Wait()
	log.expectWarning(t)
}
