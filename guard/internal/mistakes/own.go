package mistakes

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/ratelimit/keyfuncs"
)

const (
	ownPeer    = "ratelimit: a ban by address met a peer of a private network, which is never banned: it may be your own proxy"
	ownTrusted = "ratelimit: a ban by address met an address inside the trusted prefixes, which is never banned: it is one of your own proxies"
)

// NeverBanned reports whether the key of a ban names nothing but an address that may be this network's own: a proxy, a load
// balancer, a health check. A ban of it would ban all clients behind it. told is the key that keyfuncs.IP has told, if any. It
// warns once of each reason, with the policy's name.
func (p *Placement) NeverBanned(r *http.Request, key, told, policy string) bool {
	if told != "" && namesOnly(key, func(part string) bool { return part == told }) {
		p.warn(r.Context(), &p.warned.ownTrusted, ownTrusted, slog.String("policy", policy),
			slog.String("if_clients_are_behind_it", "have it tell their addresses, in the header that the others append to"),
			slog.String("if_these_are_clients_write", "narrower prefixes, or a key function of your own"))
		return true
	}
	peer := peerOf(r)
	if peer.IsValid() && !isOwn(peer) {
		return false
	}
	own, err := keyfuncs.RemoteIP(r)
	if err != nil || !namesOnly(key, func(part string) bool { return part == own || isPrefixOf(part, peer) }) {
		return false
	}
	p.warn(r.Context(), &p.warned.ownPeer, ownPeer, slog.String("policy", policy),
		slog.String("behind_a_proxy_write", `keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), with the addresses of your proxies`),
		slog.String("if_these_are_clients_write", "a key function of your own"))
	return true
}

// OwnProxy remembers the key that [keyfuncs.IP] tells while the key of a ban is read. The zero value
// remembers nothing. It belongs to the goroutine that serves the request.
type OwnProxy struct {
	watches bool
	key     string
}

// Watch begins to remember.
func (o *OwnProxy) Watch() { *o = OwnProxy{watches: true} }

// Watches reports whether it remembers. Others than the key functions may ask later, and at the same time, when nothing
// is written any more.
func (o *OwnProxy) Watches() bool { return o.watches }

// OwnProxy remembers the key of an address that is a proxy's own.
func (o *OwnProxy) OwnProxy(key string) { o.key = key }

// Told stops remembering, and returns the key that was told since Watch, or "".
func (o *OwnProxy) Told() string {
	o.watches = false
	return o.key
}

// sameForAll are the namespaces of keys that are the same for all clients of a proxy, or that stand in for a missing key.
var sameForAll = [...]string{"route:", "method:", "host:", "anonymous:"}

// namesOnly reports whether a key, joined or not, names an address and nothing else of the client.
func namesOnly(key string, isAddress func(part string) bool) (named bool) {
	key = strings.ReplaceAll(key, `\`, "") // a join of joins is one of all their parts
	for part := range strings.SplitSeq(key, "|") {
		switch {
		case isAddress(part):
			named = true
		case part == "global" || hasAnyPrefix(part, sameForAll[:]):
		default:
			return false
		}
	}
	return named
}

func hasAnyPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// isPrefixOf reports whether a key is that of a prefix of an address, of any length.
func isPrefixOf(key string, address netip.Addr) bool {
	text, is := strings.CutPrefix(key, "ip:")
	if !is {
		return false
	}
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix.Contains(address)
}

var peerOf = keyfuncs.Address()

// sharedAddresses are those between a carrier and its customers, which clouds use inside, too.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

func isOwn(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || sharedAddresses.Contains(a)
}
