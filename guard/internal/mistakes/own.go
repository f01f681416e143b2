package mistakes

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/weir-go/ratelimit/keyfuncs"
)

const ownPeer = "ratelimit: a ban by address met a peer of a private network, which is never banned: it may be your own proxy"

// OwnPeer reports whether the key of a ban is the address of a peer that may be this network's own: a proxy, a load
// balancer, a health check. To ban it would ban everybody. It warns once, with the policy's name.
func (p *Placement) OwnPeer(r *http.Request, key, policy string) bool {
	if peer := peerOf(r); peer.IsValid() && !isOwn(peer) {
		return false
	}
	if own, err := keyfuncs.RemoteIP(r); err != nil || own != key {
		return false
	}
	p.warn(r.Context(), &p.warned.ownPeer, ownPeer, slog.String("policy", policy),
		slog.String("behind_a_proxy_write", `keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), with the addresses of your proxies`),
		slog.String("if_these_are_clients_write", "a key function of your own"))
	return true
}

var peerOf = keyfuncs.Address()

// sharedAddresses are those between a carrier and its customers, which clouds use inside, too.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

func isOwn(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || sharedAddresses.Contains(a)
}
