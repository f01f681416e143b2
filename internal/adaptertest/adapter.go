package adaptertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

type (
	meter[M any]  = func(*core.Limiter, int, core.Rate, ...keyfuncs.Func) M
	window[M any] = func(*core.Limiter, int, time.Duration, ...keyfuncs.Func) M
)

// Adapter is the package of one framework, whose middleware has the type M.
type Adapter[M any] struct {
	// New and the others are the package's functions of those names.
	New                                    func(*core.Limiter, guard.Options, ...guard.Policy) M
	Leaky, Shaping, TokenBucket, GCRA      meter[M]
	FixedWindow, SlidingWindow, SlidingLog window[M]
	Concurrent                             window[M]
	Calendar                               func(*core.Limiter, int, core.Period, ...keyfuncs.Func) M
	Adaptive                               func(n func() int) M
	Layered                                func(*core.Limiter, guard.Options, guard.Policy, guard.Policy) M
	Use                                    func(*guard.Handle) M
	MergeUpstream                          func(http.Handler) http.Handler

	// ClientIP is the package's function of that name, by what the framework takes for
	// the client's address, or nil if the framework has no such notion.
	ClientIP func(...keyfuncs.Trust) keyfuncs.Func
	// ClientIPDiffers are the keys that ClientIP gives where the framework differs
	// from the others, by the name of the row.
	ClientIPDiffers map[string]string

	// User is the key of Site.User.
	User keyfuncs.Func

	// UserValue finds Site.User by the package's With, or is nil if the package has none.
	UserValue func(*http.Request) any

	// CatchAll is the route of paths below /files/, as the framework's own syntax
	// allows it to be written.
	CatchAll string

	// Serve builds the handler of a site with the framework.
	Serve func(Site[M]) http.Handler

	// Play builds the handler of a scene with the framework.
	Play func(Scene[M]) http.Handler
	// Answered says what the limiter can see of the answers that others give.
	Answered Answered

	// AlwaysDocument says that the framework's error handler answers denials, which
	// always gives the problem document, never plain text.
	AlwaysDocument bool
}

// Answered says what a limiter can see of answers that are given further out.
type Answered struct {
	// LeavesErrors says that handlers of the framework leave errors to be answered.
	LeavesErrors bool
	// SendsLater says that a status which a handler sets is sent later, so that others can
	// still answer an error that it leaves behind.
	SendsLater bool
	// Sees reports whether the limiter sees an answer to an error, or to a panic, that a
	// scene's handler has left behind.
	Sees func(outside Outside, restores, panicked bool) bool
}

// Site is what an adapter's Serve has to build: GET and HEAD, OPTIONS of
//
//	/             nothing else than that
//	/items/{id}
//	/files/…      everything below, in a wildcard
//
// all of which run Handler. Other paths are not found, and other methods of these
// paths not allowed.
type Site[M any] struct {
	// Before runs first, with the framework's own response writer.
	Before func(http.ResponseWriter)
	// User is what authentication puts into the framework's context before any
	// limiter runs, where Adapter.User finds it. It may be nil.
	User any
	// Proxies are what the framework's own notion of a client's address has to trust,
	// and nobody else.
	Proxies []string
	// Around are the limiters of the whole site, the outermost first.
	Around []M
	// Inside are the limiters of each route, inside of the router.
	Inside []M
	// Handler is given the framework's own response writer.
	Handler http.HandlerFunc
}

// middleware is an M.
type middleware any

// site is a Site.
type site struct {
	before  func(http.ResponseWriter)
	user    any
	proxies []string
	around  []middleware
	inside  []middleware
	handler http.HandlerFunc
}

// suite is an Adapter, for cases that need not know its M.
type suite struct {
	new      func(*core.Limiter, guard.Options, ...guard.Policy) middleware
	meters   map[string]func(*core.Limiter, int, core.Rate, ...keyfuncs.Func) middleware
	windows  map[string]func(*core.Limiter, int, time.Duration, ...keyfuncs.Func) middleware
	calendar func(*core.Limiter, int, core.Period, ...keyfuncs.Func) middleware
	places   func(*core.Limiter, int, time.Duration, ...keyfuncs.Func) middleware
	adaptive func(n func() int) middleware
	layered  func(*core.Limiter, guard.Options, guard.Policy, guard.Policy) middleware
	use      func(*guard.Handle) middleware
	merge    func(http.Handler) http.Handler
	clientIP func(...keyfuncs.Trust) keyfuncs.Func
	differs  map[string]string
	user     keyfuncs.Func
	// userValue is Adapter.UserValue.
	userValue func(*http.Request) any
	catchAll  string
	serve     func(site) http.Handler
	play      func(scene) http.Handler
	answered  Answered
	// alwaysDocument is Adapter.AlwaysDocument.
	alwaysDocument bool
}

// Run runs the suite.
func Run[M any](t *testing.T, adapter Adapter[M]) {
	s := &suite{
		new: func(l *core.Limiter, o guard.Options, p ...guard.Policy) middleware {
			return adapter.New(l, o, p...)
		},
		meters: map[string]func(*core.Limiter, int, core.Rate, ...keyfuncs.Func) middleware{
			"leaky":        erase(adapter.Leaky),
			"shaping":      erase(adapter.Shaping),
			"token-bucket": erase(adapter.TokenBucket),
			"gcra":         erase(adapter.GCRA),
		},
		windows: map[string]func(*core.Limiter, int, time.Duration, ...keyfuncs.Func) middleware{
			"fixed-window":   erase(adapter.FixedWindow),
			"sliding-window": erase(adapter.SlidingWindow),
			"sliding-log":    erase(adapter.SlidingLog),
		},
		places:   erase(adapter.Concurrent),
		calendar: erase(adapter.Calendar),
		adaptive: func(n func() int) middleware { return adapter.Adaptive(n) },
		layered: func(l *core.Limiter, o guard.Options, address, user guard.Policy) middleware {
			return adapter.Layered(l, o, address, user)
		},
		use:       func(h *guard.Handle) middleware { return adapter.Use(h) },
		merge:     adapter.MergeUpstream,
		clientIP:  adapter.ClientIP,
		differs:   adapter.ClientIPDiffers,
		user:      adapter.User,
		userValue: adapter.UserValue,
		catchAll:  adapter.CatchAll,
		serve: func(of site) http.Handler {
			return adapter.Serve(Site[M]{
				Before:  of.before,
				User:    of.user,
				Proxies: of.proxies,
				Around:  restore[M](of.around),
				Inside:  restore[M](of.inside),
				Handler: of.handler,
			})
		},
		play: func(of scene) http.Handler {
			return adapter.Play(Scene[M]{
				Limiters: restore[M](of.limiters),
				Outside:  of.outside,
				Restores: of.restores,
				Handler:  of.handler,
				Raw:      of.raw,
				Error:    of.error,
			})
		},
		answered:       adapter.Answered,
		alwaysDocument: adapter.AlwaysDocument,
	}
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) { c.test(t, s) })
	}
}

func erase[M, N any](f func(*core.Limiter, int, N, ...keyfuncs.Func) M) func(*core.Limiter, int, N, ...keyfuncs.Func) middleware {
	return func(l *core.Limiter, n int, per N, by ...keyfuncs.Func) middleware { return f(l, n, per, by...) }
}

func restore[M any](erased []middleware) []M {
	restored := make([]M, 0, len(erased))
	for _, m := range erased {
		restored = append(restored, m.(M)) // erase and New gave nothing else
	}
	return restored
}
