package keyfuncs

import (
	"net/http"
	"net/netip"
	"strings"
)

// precision is how many leading bits of an address count.
type precision struct {
	ipv4, ipv6 int
	nat64      []netip.Prefix // prefixes of addresses that belong to IPv4 clients
}

var defaultPrecision = precision{ipv4: 32, ipv6: 64}

// sixToFour are the addresses of RFC 3056. Each IPv4 address has a /48 of them.
var sixToFour = netip.MustParsePrefix("2002::/16")

// noAddress stands for a peer that is no address: one fixed bucket.
const noAddress = "none"

// RemoteIP names requests by the address of the TCP peer, which no client can
// forge: "ip:203.0.113.9", or "ip:2001:db8::/64", since IPv6 counts by /64. It
// reads no header and never fails.
//
// Behind a proxy the peer is the proxy, and all clients share one key; use [IP]
// there. RemoteIP is the middleware's default, which warns when requests carry a
// proxy's header; a policy that names RemoteIP means it, and is not warned. A peer that
// is no address, as on a unix socket, is "ip:none".
func RemoteIP(r *http.Request) (string, error) {
	if address := plainIPv4(r.RemoteAddr); address != "" {
		return "ip:" + address, nil
	}
	return addressKey("ip:", peerOf(r), defaultPrecision), nil
}

// AddressKey returns the key that [RemoteIP] and [IP] have for a client's address: "ip:203.0.113.9", or "ip:2001:db8::/64". It is for
// programs that have no request, such as one that resets a key, and for a [Func] that finds the address in its own way. An IPv4-mapped address is the
// IPv4 address, and a zone is dropped. The zero Addr and an unspecified address are "ip:none". It never fails, and may be used by many
// goroutines at once.
//
// Where IP was given [IPv4Prefix], [IPv6Prefix] or [NAT64], its keys are others.
func AddressKey(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.IsUnspecified() {
		address = netip.Addr{}
	}
	return addressKey("ip:", address, defaultPrecision)
}

// Anonymous stands in for a key that a request does not have. It is the address of the
// TCP peer, as [RemoteIP] writes it, in a namespace of its own: "anonymous:203.0.113.9".
// So a request without a key is still limited, and is not charged to its address's own
// key. It never fails.
//
// [Join] uses it, and so does the middleware for a Func that says [ErrNoKey].
func Anonymous(r *http.Request) (string, error) {
	return addressKey("anonymous:", peerOf(r), defaultPrecision), nil
}

// peerOf returns the address of the TCP peer, or the zero Addr if it has none.
func peerOf(r *http.Request) netip.Addr {
	return parseAddress(r.RemoteAddr)
}

// plainIPv4 returns the part in front of the port of a text such as "203.0.113.9:4711", as net/http writes most peers. Nothing else has to be
// done to make a key of it. For all other texts it returns "".
func plainIPv4(text string) string {
	number, digits, dots, end := 0, 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			if digits++; digits > 1 && number == 0 {
				return "" // a zero in front
			}
			if number = 10*number + int(c-'0'); number > 65_535 || number > 255 && end == 0 {
				return ""
			}
		case digits == 0 || end > 0:
			return ""
		case c == '.' && dots < 3:
			dots, number, digits = dots+1, 0, 0
		case c == ':' && dots == 3:
			end, number, digits = i, 0, 0
		default:
			return ""
		}
	}
	if digits == 0 || text[:end] == "0.0.0.0" { // no client has that one
		return ""
	}
	return text[:end]
}

// parseAddress reads an address with or without a port, in all its notations,
// and returns it in one: IPv4-mapped addresses as IPv4, without a zone. Anything
// else is the zero Addr, and so is an unspecified address, which no client has.
func parseAddress(text string) netip.Addr {
	var address netip.Addr
	var err error
	switch {
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		address, err = netip.ParseAddr(text[1 : len(text)-1])
		if address.Is4() {
			return netip.Addr{}
		}
	case strings.HasPrefix(text, "["), strings.Count(text, ":") == 1:
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(text)
		address = withPort.Addr()
	default:
		address, err = netip.ParseAddr(text)
	}
	// Unmap comes before any comparison or mask: a prefix of IPv4 addresses
	// contains no mapped address, and the /64 of a mapped address is the /64 of all.
	address = address.Unmap().WithZone("")
	if err != nil || address.IsUnspecified() {
		return netip.Addr{}
	}
	return address
}

// addressKey returns the canonical text of an address behind a namespace.
func addressKey(namespace string, address netip.Addr, counts precision) string {
	var space [64]byte // enough for the longest namespace, address and length
	return string(counts.appendTo(append(space[:0], namespace...), address))
}

// appendTo appends the canonical text of an address, or of its prefix if not all
// of its bits count.
func (p precision) appendTo(buffer []byte, address netip.Addr) []byte {
	if !address.IsValid() {
		return append(buffer, noAddress...)
	}
	address = p.translated(address)
	bits := p.ipv6
	switch {
	case address.Is4():
		bits = p.ipv4
	case sixToFour.Contains(address):
		bits = min(bits, 48)
	}
	if bits == address.BitLen() {
		return address.AppendTo(buffer)
	}
	prefix, _ := address.Prefix(bits) // the options let no impossible length through
	return prefix.AppendTo(buffer)
}

// translated returns the IPv4 address behind an address of a NAT64 translator, and any
// other address as it is.
func (p precision) translated(address netip.Addr) netip.Addr {
	for _, prefix := range p.nat64 {
		if prefix.Contains(address) {
			return validOr(address, embedded(address, prefix.Bits()))
		}
	}
	return address
}
