// Package mistakes notices mistakes in how a program sets its limiters up that no error can tell, since
// they depend on what else the program builds, or on what its requests look like. It warns of each once.
package mistakes

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// Placement notices mistakes in where a Guard stands that only its first requests show: a
// proxy in front of it, or no router. It warns of each once. [NewPlacement] makes it, and many
// goroutines may use it at once.
type Placement struct {
	logger *slog.Logger // nil: the default one
	proxy  proxyWatch
	route  routeWatch
	warned *warned
}

// warned is of which mistakes the log has been warned. Guards that take each other's place
// share it.
type warned struct {
	proxy, listsProxy, ownPeer, ownTrusted, loneBan, route atomic.Bool

	keyless sync.Map // of given.Function: those that find no keys
}

// NewPlacement returns the Placement of a Guard that uses the TCP peer in some way. The logger may be
// nil, which is the default one.
func NewPlacement(logger *slog.Logger, peer Peer) *Placement {
	p := &Placement{logger: logger, proxy: proxyWatch{peer: peer}, warned: new(warned)}
	if peer.Counts || peer.Lists {
		p.proxy.start()
	}
	p.route.start()
	return p
}

// Inherit takes over of which mistakes the log has been warned by a Placement whose place this one takes.
// It is called before the first request.
func (p *Placement) Inherit(old *Placement) { p.warned = old.warned }

// Look looks at a request before its keys are read.
func (p *Placement) Look(a *RouteAsked, r *http.Request) {
	if p.proxy.running() {
		p.proxy.look(p, r)
	}
	a.watched = p.route.running()
}

// KeysRead looks at a request after its keys have been read.
func (p *Placement) KeysRead(a *RouteAsked, r *http.Request) {
	a.watched = false
	if a.asked {
		p.route.keysRead(p, a, r)
	}
}

// Returned looks at a request whose handler has returned. If its route has become known
// only since the key functions asked for it, that is a mistake.
func (p *Placement) Returned(a *RouteAsked, r *http.Request) {
	if a.asked {
		p.route.returned(p, a, r)
	}
}

// lookedAt is how many requests are looked at: enough to have seen real traffic after
// the probes of a deployment, and few enough to cost nothing in the long run.
const lookedAt = 10_000

// countdown is how many requests are still looked at. The zero value is none.
type countdown struct{ left atomic.Int32 }

func (c *countdown) start()        { c.left.Store(lookedAt) }
func (c *countdown) running() bool { return c.left.Load() > 0 }
func (c *countdown) lookedAtOne()  { c.left.Add(-1) }

// stop stops it, and reports whether it was running: it is for one of many callers only.
func (c *countdown) stop() bool { return c.left.Swap(0) > 0 }

// warn warns of a mistake that nobody has been warned of.
func (p *Placement) warn(ctx context.Context, of *atomic.Bool, message string, attributes ...slog.Attr) {
	if of.CompareAndSwap(false, true) {
		warn(ctx, p.logger, message, attributes...)
	}
}

// warn logs a mistake of the program's. The logger may be nil, which is the default one. A panic of it is contained.
func warn(ctx context.Context, logger *slog.Logger, message string, attributes ...slog.Attr) {
	defer func() { _ = recover() }() // there is nowhere left to tell it
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelWarn, message, attributes...)
}

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

// RouteAsked is what the key functions of a request were told about its route. The zero value is that of a
// new request. It belongs to the goroutine that serves the request.
type RouteAsked struct {
	watched bool   // the key functions are being called
	asked   bool   // one of them has asked
	route   string // what they were told, or "" if none has asked
}

// Ask notices that the route is asked for. Others than the key functions may do that, too,
// and at the same time, so nothing is written then.
func (a *RouteAsked) Ask() {
	if a.watched {
		a.asked = true
	}
}

// keysRead remembers what the key functions of a request were told, which have asked for
// its route and have returned.
func (w *routeWatch) keysRead(p *Placement, a *RouteAsked, r *http.Request) {
	w.lookedAtOne()
	a.route = RouteOf(r)
	if known := r.Pattern != "" || keyfuncs.MatchedFrom(r.Context()) != nil; known {
		w.told.Store(true)
	} else if w.untold.Add(1) == mostUntold && !w.told.Load() && w.stop() {
		p.warn(r.Context(), &p.warned.route, noRouter, slog.Int("requests", mostUntold), slog.String("write", writeInstead+writeMatched))
	}
}

// returned compares what the key functions were told with what is known when the handler
// has returned.
func (w *routeWatch) returned(p *Placement, a *RouteAsked, r *http.Request) {
	asked, found := a.route, RouteOf(r)
	if found != asked && found != keyfuncs.Unmatched && w.stop() {
		p.warn(r.Context(), &p.warned.route, tooEarly, slog.String("asked", asked), slog.String("found", found), slog.String("write", writeInstead))
	}
}

// RouteOf returns the route of a request, as far as it is known.
func RouteOf(r *http.Request) string {
	key, _ := keyfuncs.Route(r) // which never fails
	return strings.TrimPrefix(key, "route:")
}
