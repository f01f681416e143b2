package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimitecho4 "github.com/weir-go/ratelimit/echo"
	ratelimitecho5 "github.com/weir-go/ratelimit/echo/v5"
	ratelimitgin "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// framework is one way to serve the requests that are limited.
type framework struct {
	Name  string // in paths
	Title string
	serve func(l *core.Limiter, options ratelimit.Options, policies ...ratelimit.Policy) http.Handler
}

var frameworks = []framework{
	{"nethttp", "net/http", serveNetHTTP},
	{"gin", "gin", serveGin},
	{"echo", "echo", serveEcho4},
	{"echov5", "echo v5", serveEcho5},
}

func knownFramework(name string) bool {
	for _, f := range frameworks {
		if f.Name == name {
			return true
		}
	}
	return false
}

const welcome = "Welcome. This came through the middleware for "

func serveNetHTTP(l *core.Limiter, options ratelimit.Options, policies ...ratelimit.Policy) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/nethttp/{card}", func(w http.ResponseWriter, r *http.Request) {
		status, text := attemptOf(r).handle(r.Context(), "net/http")
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	return ratelimit.New(l, options, policies...)(mux)
}

// quietGin keeps gin from printing its routes. gin has one mode for the program.
var quietGin = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

func serveGin(l *core.Limiter, options ratelimit.Options, policies ...ratelimit.Policy) http.Handler {
	quietGin()
	router := gin.New()
	router.Use(ratelimitgin.New(l, options, policies...))
	router.GET("/api/gin/:card", func(c *gin.Context) {
		status, text := attemptOf(c.Request).handle(c.Request.Context(), "gin")
		c.String(status, "%s", text)
	})
	return router
}

func serveEcho4(l *core.Limiter, options ratelimit.Options, policies ...ratelimit.Policy) http.Handler {
	e := echo4.New()
	e.Use(ratelimitecho4.New(l, options, policies...))
	e.GET("/api/echo/:card", func(c echo4.Context) error {
		return c.String(attemptOf(c.Request()).handle(c.Request().Context(), "echo"))
	})
	return e
}

func serveEcho5(l *core.Limiter, options ratelimit.Options, policies ...ratelimit.Policy) http.Handler {
	e := echo5.New()
	e.Use(ratelimitecho5.New(l, options, policies...))
	e.GET("/api/echov5/:card", func(c *echo5.Context) error {
		return c.String(attemptOf(c.Request()).handle(c.Request().Context(), "echo v5"))
	})
	return e
}

// handle does the work of a handler, and returns its answer.
func (a *attempt) handle(ctx context.Context, framework string) (status int, text string) {
	text = welcome + framework + ".\n"
	q := a.card.quota
	if q == nil {
		return http.StatusOK, text
	}
	if q.takes > 0 {
		timer := time.NewTimer(q.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if way := q.way(a.way); way.status != 0 {
		return way.status, way.Title + ".\n"
	}
	return http.StatusOK, text
}

// attemptHeader says which of the page's own requests this is. Others, a visitor's
// curl for one, come without it and meet the limit that the card shows.
const attemptHeader = "Demo-Attempt"

type attemptKey struct{}

func attemptOf(r *http.Request) *attempt {
	a, _ := r.Context().Value(attemptKey{}).(*attempt)
	return a
}

// limited serves the requests that are limited: /api/{framework}/{card}. Each framework
// has one middleware for all algorithms, which finds limit and key in the
// attempt, and one for each quota.
func (p *page) limited() http.Handler {
	policy := ratelimit.Policy{
		LimitFor: func(r *http.Request) core.Limit { return attemptOf(r).limit },
		By:       byVisitor,
	}
	options := ratelimit.Options{Observe: p.observe}
	mux := http.NewServeMux()
	for _, f := range frameworks {
		mux.Handle("GET /api/"+f.Name+"/{algorithm}", f.serve(p.limiter, options, policy))
		for i := range quotas {
			mux.Handle("GET /api/"+f.Name+"/"+quotas[i].Name, f.serve(p.limiter, options, quotas[i].policies...))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := p.visitorOf(r)
		if v == nil {
			http.Error(w, errStranger.Error(), http.StatusForbidden)
			return
		}
		a, err := v.attempt(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), attemptKey{}, a)))
	})
}

// attempt returns the attempt that a request belongs to.
func (v *visitor) attempt(r *http.Request) (*attempt, error) {
	v.Lock()
	defer v.Unlock()
	if id := r.Header.Get(attemptHeader); id != "" {
		if a := v.attempts[id]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such attempt is under way")
	}
	name := r.URL.Path[lastSlash(r.URL.Path)+1:]
	c := cmp.Or(v.card(name), v.quota(name))
	if c == nil {
		return nil, errors.New("no such algorithm, and no such quota")
	}
	a := &attempt{visitor: v, card: c, limit: c.limit, key: v.key, counts: true}
	if a.way = r.URL.Query().Get("way"); c.quota != nil {
		if chosen := c.quota.way(a.way); chosen == nil || chosen.buys {
			return nil, errNoWay
		}
	}
	return a, nil
}

func lastSlash(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return i
		}
	}
	return -1
}

// observe notes the middleware's decision about an attempt. Of shaped
// requests it hears when they have had their turn.
func (p *page) observe(event ratelimit.Event) {
	a := attemptOf(event.Request)
	outcome := decisive(event.Outcomes)
	if outcome == nil || event.Settled {
		return
	}
	decision := outcome.Decision
	at := p.now() - event.Elapsed/2 - decision.Delay
	a.visitor.Lock()
	defer a.visitor.Unlock()
	a.decided, a.policy, a.at = &decision, outcome.Policy, at
	if decision.Allowed && a.counts && a.limit == a.card.limit {
		a.card.kept.admit(&decision, at)
	}
}

// decisive returns the outcome that decided about a request: the one that denies it, or the alternative that was charged, or else
// will be the first to have room. It is nil if nothing was decided.
func decisive(outcomes []guard.Outcome) *guard.Outcome {
	for i := range outcomes {
		if o := &outcomes[i]; o.Denies() && !o.Decision.Waived {
			return o
		}
	}
	for i := range outcomes {
		if !outcomes[i].Decision.Waived {
			return &outcomes[i]
		}
	}
	return nil
}
