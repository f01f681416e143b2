package guard

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// routeWatch notices that key functions ask for the route of a request before a router
// has found it. Then [keyfuncs.Route] is the same for requests of different routes, and
// [keyfuncs.PathValue] finds nothing.
type routeWatch struct {
	countdown

	told   atomic.Bool  // a router has told the route of a request
	untold atomic.Int32 // requests whose route was asked for, and known to nobody
}

// mostUntold is how many requests without a known route there are before that is taken
// for a mistake. Some are none: the requests that a router finds nothing for.
const mostUntold = 100

const (
	tooEarly = "ratelimit: the limiter asks for the route before the router has found it: requests of different routes share one limit"
	noRouter = "ratelimit: the limiter asks for the route, and no router has told it one: requests of all routes share one limit"

	writeInstead = "net/http: limit(mux), or limit(handler) for each handler; chi: r.With(limit).Get(...), or Use in a Group; echo: Use, not Pre"
	writeMatched = "; another router that does not set http.Request.Pattern: keyfuncs.WithMatched, or a key function of your own"
)

// routeAsked is what the key functions of a request were told about its route.
type routeAsked struct {
	watched bool   // the key functions are being called
	asked   bool   // one of them has asked
	route   string // what they were told, or "" if none has asked
}

// ask notices that the route is asked for. Others than the key functions may do that, too,
// and at the same time, so nothing is written then.
func (a *routeAsked) ask() {
	if a.watched {
		a.asked = true
	}
}

// keysRead remembers what the key functions of a request were told, which have asked for
// its route and have returned.
func (w *routeWatch) keysRead(p *placement, rc *requestContext, r *http.Request) {
	w.lookedAtOne()
	rc.routeAsked.route = routeOf(r)
	if known := r.Pattern != "" || keyfuncs.MatchedFrom(r.Context()) != nil; known {
		w.told.Store(true)
	} else if w.untold.Add(1) == mostUntold && !w.told.Load() && w.stop() {
		p.warn(r.Context(), &p.warned.route, noRouter, slog.Int("requests", mostUntold), slog.String("write", writeInstead+writeMatched))
	}
}

// returned compares what the key functions were told with what is known when the handler
// has returned.
func (w *routeWatch) returned(p *placement, rc *requestContext, r *http.Request) {
	asked, found := rc.routeAsked.route, routeOf(r)
	if found != asked && found != keyfuncs.Unmatched && w.stop() {
		p.warn(r.Context(), &p.warned.route, tooEarly, slog.String("asked", asked), slog.String("found", found), slog.String("write", writeInstead))
	}
}

// routeOf returns the route of a request, as far as it is known.
func routeOf(r *http.Request) string {
	key, _ := keyfuncs.Route(r) // which never fails
	return strings.TrimPrefix(key, "route:")
}
