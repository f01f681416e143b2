package guard

import (
	"log/slog"
	"net/http"
)

// proxyWatch looks for signs of a proxy in front of a Guard that counts by the TCP peer, or
// looks it up in lists, without having been told to. Behind a proxy, that is one limit for
// everybody, or one entry.
type proxyWatch struct {
	countdown

	byPeer bool   // a policy counts by the peer
	policy string // that one
	lists  bool   // look up the peer
}

// watch begins to look for a proxy if a policy's key is the default one, or the lists'
// address is.
func (w *proxyWatch) watch(o *Options, policies []Policy) {
	w.lists = o.Lists.used() && o.Lists.Address == nil
	for i := range policies {
		if p := &policies[i]; p.By == nil {
			w.byPeer, w.policy = true, p.Limit.Name()
			break
		}
	}
	if w.byPeer || w.lists {
		w.start()
	}
}

// forwarding are the headers in which proxies say for whom they send a request, and what
// believes them.
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
func (w *proxyWatch) look(p *placement, r *http.Request) {
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
	w.lookedAtOne()
}

// tell warns of a proxy whose header was seen, and says what believes it.
func (w *proxyWatch) tell(p *placement, r *http.Request, header, trust string) {
	if w.byPeer {
		p.warn(r.Context(), &p.warned.proxy, behindProxy, slog.String("header", header), slog.String("policy", w.policy),
			slog.String("behind_a_proxy_write", "keyfuncs.IP(keyfuncs."+trust+"), with the addresses of your proxies"),
			slog.String("if_clients_connect_directly_write", "keyfuncs.RemoteIP"))
	}
	if w.lists {
		p.warn(r.Context(), &p.warned.listsProxy, listsBehindProxy, slog.String("header", header),
			slog.String("behind_a_proxy_write", "Address: keyfuncs.Address(keyfuncs."+trust+"), with the addresses of your proxies"),
			slog.String("if_clients_connect_directly_write", "Address: keyfuncs.Address()"))
	}
}
