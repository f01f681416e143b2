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

// Look looks at a request before its keys are read. Most Guards have looked at enough of them.
func (p *Placement) Look(r *http.Request) {
	if p.proxy.left.Load() > 0 {
		p.proxy.look(p, r)
	}
}

// KeysRead looks at a request after its key functions, which have asked for its route, have been called. It returns the route
// that they were told, for Returned, or nil if enough requests were looked at.
func (p *Placement) KeysRead(r *http.Request) (asked *string) {
	if !p.route.running() {
		return nil
	}
	route := RouteOf(r)
	p.route.keysRead(p, r)
	return &route
}

// Returned looks at a request whose handler has returned. If its route has become known
// only since the key functions asked for it, that is a mistake.
func (p *Placement) Returned(asked string, r *http.Request) { p.route.returned(p, asked, r) }

// lookedAt is how many requests are looked at: enough to have seen real traffic after
// the probes of a deployment, and few enough to cost nothing in the long run.
const lookedAt = 10_000

// countdown is how many requests are still looked at. The zero value is none.
type countdown struct{ left atomic.Int32 }

func (c *countdown) start()        { c.left.Store(lookedAt) }
func (c *countdown) running() bool { return c.left.Load() > 0 }

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

// keysRead counts a request whose key functions have asked for its route.
func (w *routeWatch) keysRead(p *Placement, r *http.Request) {
	w.left.Add(-1)
	if known := r.Pattern != "" || keyfuncs.MatchedFrom(r.Context()) != nil; known {
		w.told.Store(true)
	} else if w.untold.Add(1) == mostUntold && !w.told.Load() && w.stop() {
		p.warn(r.Context(), &p.warned.route, noRouter, slog.Int("requests", mostUntold), slog.String("write", writeInstead+writeMatched))
	}
}

// returned compares what the key functions were told with what is known when the handler
// has returned.
func (w *routeWatch) returned(p *Placement, asked string, r *http.Request) {
	found := RouteOf(r)
	if found != asked && found != keyfuncs.Unmatched && w.stop() {
		p.warn(r.Context(), &p.warned.route, tooEarly, slog.String("asked", asked), slog.String("found", found), slog.String("write", writeInstead))
	}
}

// RouteOf returns the route of a request, as far as it is known.
func RouteOf(r *http.Request) string {
	key, _ := keyfuncs.Route(r) // which never fails
	return strings.TrimPrefix(key, "route:")
}
