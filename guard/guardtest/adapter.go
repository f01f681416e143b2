package guardtest

import (
	"cmp"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Adapter is an adapter of guard for one framework with middleware of the type M. FromGuard and Serve are required; all else may be left out.
type Adapter[M any] struct {
	// FromGuard returns the middleware of a Guard: it decides by [guard.Guard.Decide], writes the header of the verdict, and
	// answers with its Denial or serves with its Serve. It panics if the Guard is nil.
	FromGuard func(*guard.Guard) M
	// Serve builds the handler of a site with the framework.
	Serve func(Site[M]) http.Handler

	// Without are the features that the framework has not. Cases that need them are skipped. None by default.
	Without Features

	// Constructors are the package's own, or nil. The cases make middleware with the given ones, and otherwise with FromGuard.
	Constructors Constructors[M]

	// CatchAll is the route of paths below /files/, as the framework's own syntax allows it to be written: /files/{rest...} by default.
	CatchAll string
	// AlwaysDocument says that the framework's error handler answers denials, which always gives the problem document, never plain text.
	AlwaysDocument bool

	// User is the key of Site.User, or nil if the framework has no context of its own: then cases about it are skipped.
	User keyfuncs.Func
	// UserValue finds Site.User for functions of policies, or is nil if the package has no such function. It returns nil for a request that
	// has met no middleware of the package.
	UserValue func(*http.Request) any

	// ClientIP is the key of the client's address as the framework knows it, or nil if it has no such notion.
	ClientIP func(...keyfuncs.Trust) keyfuncs.Func
	// ClientIPDiffers are the keys that ClientIP gives where the framework differs from the others, by the name of the row that fails.
	ClientIPDiffers map[string]string

	// Play builds the handler of a scene with the framework. If it is nil, cases about answers of middlewares around the limiter, and of
	// panics and errors that handlers leave behind, are skipped.
	Play func(Scene[M]) http.Handler
	// Answered says how much the limiter can see of the answers that others give in a scene.
	Answered Answered

	// Redis starts an empty Redis server for one test, and returns its URL, redis://host:port. If it is nil, cases that count in Redis are
	// skipped: whichever the store is, an adapter works alike.
	Redis func(*testing.T) (url string)
}

// Constructors are functions that a package may have, with the names and the behaviour of those of package nethttp. Each may be nil.
type Constructors[M any] struct {
	New           func(*core.Limiter, guard.Options, ...guard.Policy) M
	Leaky         func(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) M
	Shaping       func(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) M
	TokenBucket   func(l *core.Limiter, capacity int, refill core.Rate, by ...keyfuncs.Func) M
	GCRA          func(l *core.Limiter, burst int, rate core.Rate, by ...keyfuncs.Func) M
	FixedWindow   func(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) M
	SlidingWindow func(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) M
	SlidingLog    func(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) M
	Calendar      func(l *core.Limiter, n int, period core.Period, by ...keyfuncs.Func) M
	Concurrent    func(l *core.Limiter, n int, lease time.Duration, by ...keyfuncs.Func) M
}

// Answered says how much a limiter can see of answers that are given further out.
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

// Site describes the site that an adapter's Serve has to build: GET, HEAD and OPTIONS of
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
	// User is the user that authentication puts into the framework's context before any
	// limiter runs, where Adapter.User finds it. It may be nil.
	User any
	// Proxies are the only peers that the framework's own notion of a client's address
	// has to trust.
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
	use      func(*guard.Guard) middleware
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
	redis          func(*testing.T) string
	without        Features
}

// Run runs the suite: each case is a subtest, named after its claim.
func Run[M any](t *testing.T, adapter Adapter[M]) {
	if adapter.FromGuard == nil || adapter.Serve == nil {
		t.Fatal("guardtest: the adapter has no FromGuard or no Serve: both are needed")
	}
	s := suiteOf(&adapter)
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) { c.test(t, s) })
	}
}

func suiteOf[M any](adapter *Adapter[M]) *suite {
	of := adapter.Constructors
	if of.New == nil {
		of.New = func(l *core.Limiter, options guard.Options, policies ...guard.Policy) M {
			return adapter.FromGuard(guard.Must(guard.New(l, options, policies...)))
		}
	}
	s := &suite{
		new: func(l *core.Limiter, o guard.Options, p ...guard.Policy) middleware { return of.New(l, o, p...) },
		meters: map[string]func(*core.Limiter, int, core.Rate, ...keyfuncs.Func) middleware{
			"leaky":        short(of.New, of.Leaky, core.Leaky),
			"shaping":      short(of.New, of.Shaping, core.Shaping),
			"token-bucket": short(of.New, of.TokenBucket, core.TokenBucket),
			"gcra":         short(of.New, of.GCRA, core.GCRA),
		},
		windows: map[string]func(*core.Limiter, int, time.Duration, ...keyfuncs.Func) middleware{
			"fixed-window":   short(of.New, of.FixedWindow, core.FixedWindow),
			"sliding-window": short(of.New, of.SlidingWindow, core.SlidingWindow),
			"sliding-log":    short(of.New, of.SlidingLog, core.SlidingLog),
		},
		places:    short(of.New, of.Concurrent, core.Concurrent),
		calendar:  short(of.New, of.Calendar, core.Calendar),
		use:       func(g *guard.Guard) middleware { return adapter.FromGuard(g) },
		clientIP:  adapter.ClientIP,
		differs:   adapter.ClientIPDiffers,
		user:      adapter.User,
		userValue: adapter.UserValue,
		catchAll:  cmp.Or(adapter.CatchAll, "/files/{rest...}"),
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
		answered:       adapter.Answered,
		alwaysDocument: adapter.AlwaysDocument,
		redis:          adapter.Redis,
		without:        adapter.Without,
	}
	if adapter.Play == nil {
		return s
	}
	s.play = func(of scene) http.Handler {
		return adapter.Play(Scene[M]{
			Limiters: restore[M](of.limiters),
			Outside:  of.outside,
			Restores: of.restores,
			Handler:  of.handler,
			Raw:      of.raw,
			Error:    of.error,
		})
	}
	return s
}

// short returns the package's own constructor, or one of newMiddleware and the limit.
func short[M, N any](
	newMiddleware func(*core.Limiter, guard.Options, ...guard.Policy) M,
	own func(*core.Limiter, int, N, ...keyfuncs.Func) M, limit func(int, N) core.Limit,
) func(*core.Limiter, int, N, ...keyfuncs.Func) middleware {
	return func(l *core.Limiter, n int, per N, by ...keyfuncs.Func) middleware {
		if own == nil {
			return newMiddleware(l, guard.Options{}, guard.PolicyFor(limit(n, per), by...))
		}
		return own(l, n, per, by...)
	}
}

func restore[M any](erased []middleware) []M {
	restored := make([]M, 0, len(erased))
	for _, m := range erased {
		restored = append(restored, m.(M)) // short and New gave nothing else
	}
	return restored
}

// adaptive returns the middleware of [guard.Adaptive].
func (s *suite) adaptive(n func() int) middleware { return s.use(guard.Adaptive(n)) }

// layered returns the middleware of [guard.Layers].
func (s *suite) layered(l *core.Limiter, options guard.Options, address, user guard.Policy) middleware {
	return s.new(l, options, guard.Layers(address, user)...)
}
