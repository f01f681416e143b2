// Package mistakes notices mistakes in the set-up of limiters that no error can tell, since
// they depend on other limiters of the program, or on its requests. It warns of each once.
package mistakes

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/ratelimit/internal/given"
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

// warned are the mistakes that the log has been warned of. Guards that take each other's place
// share it.
type warned struct {
	proxy, listsProxy, ownPeer, ownTrusted, loneBan, route atomic.Bool

	keyless sync.Map // of given.Function that find no keys
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

// Inherit takes over the warnings of a Placement that this one replaces.
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

// Returned looks at a request after its handler. If its route has become known
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

// warn warns of a mistake, once.
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
	untold atomic.Int32 // requests with an unknown route that was asked for
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

// keysRead counts a request after its key functions, which have asked for its route.
func (w *routeWatch) keysRead(p *Placement, r *http.Request) {
	w.left.Add(-1)
	if known := r.Pattern != "" || given.MatchedFrom(r.Context()) != nil; known {
		w.told.Store(true)
	} else if w.untold.Add(1) == mostUntold && !w.told.Load() && w.stop() {
		p.warn(r.Context(), &p.warned.route, noRouter, slog.Int("requests", mostUntold), slog.String("write", writeInstead+writeMatched))
	}
}

// returned compares the route that the key functions were told with the route that is known when the handler
// has returned.
func (w *routeWatch) returned(p *Placement, asked string, r *http.Request) {
	found := RouteOf(r)
	if found != asked && found != given.Unmatched && w.stop() {
		p.warn(r.Context(), &p.warned.route, tooEarly, slog.String("asked", asked), slog.String("found", found), slog.String("write", writeInstead))
	}
}

// RouteOf returns the route of a request, as far as it is known.
func RouteOf(r *http.Request) string {
	key, _ := keyfuncs.Route(r) // which never fails
	return strings.TrimPrefix(key, "route:")
}

// proxyWatch looks for signs of a proxy in front of a Guard that counts by the TCP peer, or
// looks it up in lists, without having been told to. Behind a proxy, that is one limit for
// all clients, or one entry.
type proxyWatch struct {
	countdown

	peer Peer
}

// Peer are the uses of the TCP peer in a Guard that has not been told of a proxy. The zero value is none.
type Peer struct {
	// Counts says that a policy counts by the peer, and Policy is its name.
	Counts bool
	Policy string
	// Lists says that lists look up the peer.
	Lists bool
}

// forwarding are the headers in which proxies tell the client of a request, and the trust models
// that believe them.
var forwarding = [...]struct{ header, trust string }{
	{"X-Forwarded-For", `TrustedProxies("10.0.0.0/8")`},
	{"Forwarded", `Forwarded("10.0.0.0/8")`},
	{"X-Real-Ip", `TrustedHeader("X-Real-IP", "10.0.0.0/8")`},
	{"Cf-Connecting-Ip", `TrustedHeader("CF-Connecting-IP", "10.0.0.0/8")`},
	{"True-Client-Ip", `TrustedHeader("True-Client-IP", "10.0.0.0/8")`},
	{"Fastly-Client-Ip", `TrustedHeader("Fastly-Client-IP", "10.0.0.0/8")`},
	{"Fly-Client-Ip", `TrustedHeader("Fly-Client-IP", "10.0.0.0/8")`},
	{"X-Client-Ip", `TrustedHeader("X-Client-IP", "10.0.0.0/8")`},
	{"X-Cluster-Client-Ip", `TrustedHeader("X-Cluster-Client-IP", "10.0.0.0/8")`},
	{"X-Azure-Clientip", `TrustedHeader("X-Azure-ClientIP", "10.0.0.0/8")`},
	{"X-Envoy-External-Address", `TrustedHeader("X-Envoy-External-Address", "10.0.0.0/8")`},
}

const behindProxy = "ratelimit: requests carry a header of a proxy's, and the default key is the TCP peer: behind a proxy, all clients share one limit"

const listsBehindProxy = "ratelimit: requests carry a header of a proxy's, and lists look up the TCP peer: behind a proxy, that is the proxy for all clients"

// look looks at a request.
func (w *proxyWatch) look(p *Placement, r *http.Request) {
	for i := range forwarding {
		f := &forwarding[i]
		if _, found := r.Header[f.header]; !found {
			continue
		}
		if w.stop() {
			w.tell(p, r, f.header, f.trust)
		}
		return
	}
	w.left.Add(-1)
}

// tell warns of a proxy that has sent a header, and names the trust model that believes it.
func (w *proxyWatch) tell(p *Placement, r *http.Request, header, trust string) {
	if w.peer.Counts {
		p.warn(r.Context(), &p.warned.proxy, behindProxy, slog.String("header", header), slog.String("policy", w.peer.Policy),
			slog.String("behind_a_proxy_write", "keyfuncs.IP(keyfuncs."+trust+"), with the addresses of your proxies"),
			slog.String("if_clients_connect_directly_write", "keyfuncs.RemoteIP"))
	}
	if w.peer.Lists {
		p.warn(r.Context(), &p.warned.listsProxy, listsBehindProxy, slog.String("header", header),
			slog.String("behind_a_proxy_write", "Address: keyfuncs.Address(keyfuncs."+trust+"), with the addresses of your proxies"),
			slog.String("if_clients_connect_directly_write", "Address: keyfuncs.Address()"))
	}
}
