package keyfuncs

import (
	"fmt"
	"net/netip"

	"github.com/weir-go/ratelimit/internal/given"
)

// wellKnownNAT64 is the prefix of RFC 6052.
const wellKnownNAT64 = "64:ff9b::/96"

// NAT64 takes addresses with one of these prefixes for the IPv4 addresses that
// they embed (RFC 6052): with the default, 64:ff9b::/96, the client
// 64:ff9b::203.0.113.9 is "ip:203.0.113.9". It is for servers that speak IPv6 alone
// and see IPv4 clients through a translator, which otherwise share one key, because
// all of them are in one /64.
//
// Trusted proxies are compared before that: give their addresses as the server sees
// them. NAT64 panics on a prefix that is malformed or has bits set behind its
// length, and on a length that is not 32, 40, 48, 56, 64 or 96.
func NAT64(prefixes ...string) Trust {
	if len(prefixes) == 0 {
		prefixes = []string{wellKnownNAT64}
	}
	parsed := parsePrefixes("NAT64", prefixes)
	for _, p := range parsed {
		switch bits := p.Bits(); {
		case p.Addr().Is4():
			panic(fmt.Sprintf("keyfuncs: NAT64: %v is a prefix of IPv4 addresses", p))
		case bits != 32 && bits != 40 && bits != 48 && bits != 56 && bits != 64 && bits != 96:
			panic(fmt.Sprintf("keyfuncs: NAT64: prefix of %d bits, want 32, 40, 48, 56, 64 or 96", bits))
		}
	}
	return func(a *given.Address) { a.NAT64 = parsed }
}

// embedded returns the IPv4 address behind the first bits of an IPv6 address, or the zero Addr if no client can have it.
// Byte 8 is no part of it.
func embedded(address netip.Addr, bits int) netip.Addr {
	from := address.As16()
	var to [4]byte
	at := bits / 8
	for i := range to {
		if at == 8 {
			at++
		}
		to[i] = from[at]
		at++
	}
	ipv4 := netip.AddrFrom4(to)
	if ipv4.IsUnspecified() {
		return netip.Addr{}
	}
	return ipv4
}
