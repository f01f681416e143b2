package guard

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// placement notices mistakes in where a Guard stands that only its first requests show: a
// proxy in front of it, or no router. It warns of each once.
type placement struct {
	logger *slog.Logger // nil: the default one
	proxy  proxyWatch
	route  routeWatch
	warned *warned
}

// warned is of which mistakes the log has been warned. Guards that take each other's place
// share it.
type warned struct{ proxy, listsProxy, route atomic.Bool }

// newPlacement returns the placement of a Guard with some policies, as they were given.
func newPlacement(o *Options, given []Policy) *placement {
	p := &placement{logger: o.Logger, warned: new(warned)}
	p.proxy.watch(o, given)
	p.route.start()
	return p
}

// look looks at a request before its keys are read.
func (p *placement) look(rc *requestContext, r *http.Request) {
	if p.proxy.running() {
		p.proxy.look(p, r)
	}
	rc.routeAsked.watched = p.route.running()
}

// keysRead looks at a request after its keys have been read.
func (p *placement) keysRead(rc *requestContext, r *http.Request) {
	rc.routeAsked.watched = false
	if rc.routeAsked.asked {
		p.route.keysRead(p, rc, r)
	}
}

// returned looks at a request whose handler has returned. If its route has become known
// only since the key functions asked for it, that is a mistake.
func (g *Guard) returned(rc *requestContext, r *http.Request) {
	if rc.routeAsked.asked {
		g.placement.route.returned(g.placement, rc, r)
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
func (p *placement) warn(ctx context.Context, of *atomic.Bool, message string, attributes ...slog.Attr) {
	if of.CompareAndSwap(false, true) {
		warn(ctx, p.logger, message, attributes...)
	}
}

// warn logs a mistake of the program's. The logger may be nil, which is the default one.
func warn(ctx context.Context, logger *slog.Logger, message string, attributes ...slog.Attr) {
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelWarn, message, attributes...)
}
