package mistakes

import (
	"log/slog"
	"net/http"
)

// proxyWatch looks for signs of a proxy in front of a Guard that counts by the TCP peer, or
// looks it up in lists, without having been told to. Behind a proxy, that is one limit for
// everybody, or one entry.
type proxyWatch struct {
	countdown

	peer Peer
}

// Peer is what a Guard uses the TCP peer for without having been told of a proxy. The zero value is nothing.
type Peer struct {
	// Counts says that a policy counts by the peer, and Policy is its name.
	Counts bool
	Policy string
	// Lists says that lists look up the peer.
	Lists bool
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

// tell warns of a proxy whose header was seen, and says what believes it.
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
