package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/internal/given"
)

// Trust tells [IP] which headers to believe about a client's address: [TrustedProxies], [TrustedHops], [TrustedHeader] or
// [Forwarded]. It may also set how many bits of the address count, and which: [IPv4Prefix], [IPv6Prefix], [NAT64].
type Trust func(*given.Address)

// resolver finds the address that a request comes from.
type resolver struct {
	model  given.AddressModel // nil: the TCP peer
	counts precision
}

// newResolver returns the resolver of some options.
func newResolver(caller string, trust []Trust) resolver {
	options := given.Address{Caller: caller, IPv4: defaultPrecision.ipv4, IPv6: defaultPrecision.ipv6}
	for _, option := range trust {
		if option == nil {
			panic("keyfuncs: " + caller + ": a Trust is nil")
		}
		option(&options)
	}
	v := resolver{options.Model, precision{options.IPv4, options.IPv6, options.NAT64}}
	if find := options.Found; find != nil {
		v.model = func(peer netip.Addr, r *http.Request) (netip.Addr, bool) {
			return validOr(peer, parseAddress(trimSpace(find(r)))), false
		}
	}
	return v
}

// address returns the address that a request comes from, or the zero Addr if it has none. own says that the trust model
// believes it.
func (v *resolver) address(r *http.Request) (address netip.Addr, own bool) {
	peer := peerOf(r)
	if v.model == nil {
		return peer, false
	}
	return v.model(peer, r)
}

// IP names requests by the client's address as trusted proxies tell it:
// "ip:203.0.113.9", "ip:2001:db8::/64". It never fails. Without a trust model
// it is [RemoteIP], which believes no header: behind a proxy, the proxy's address.
//
// Whenever the header is missing or its decisive entry is not an address, the
// key is the TCP peer's. IP panics if it is given two trust models, or nil.
//
// A ban by IP never bans one of the proxies that [TrustedProxies], [Forwarded] or [TrustedHeader] was given: a request of
// which no other address is known is not struck.
func IP(trust ...Trust) Func {
	v := newResolver("IP", trust)
	return func(r *http.Request) (string, error) {
		address, own := v.address(r)
		key := addressKey("ip:", address, v.counts)
		if own {
			given.TellOwnProxy(r, key)
		}
		return key, nil
	}
}

// Address finds the client's address as [IP] does, and returns the whole of it, for lists
// of addresses. [IPv4Prefix] and [IPv6Prefix] do not shorten it, so that one slice of Trusts
// serves IP and Address alike. [NAT64] does replace an address by the IPv4 address in it.
//
// An IPv4-mapped IPv6 address is the IPv4 address, and a zone is dropped. A peer that is no
// address, as on a unix socket, gives the zero Addr. Address panics where IP does.
func Address(trust ...Trust) func(*http.Request) netip.Addr {
	v := newResolver("Address", trust)
	return func(r *http.Request) netip.Addr {
		address, _ := v.address(r)
		return v.counts.translated(address)
	}
}

// TrustedProxies believes X-Forwarded-For as far as your own proxies wrote it.
// They are given as prefixes, "10.0.0.0/8", or as single addresses.
//
// If the TCP peer is one of them, the header is read from the right, over all its lines; trusted addresses are skipped,
// and the first other one is the client. The entries further left are the client's own words and never read. If all are
// trusted, the left-most is the client. An entry that is not an address ends the search, and the peer pays; so does a
// peer that is no proxy of yours, and one on a unix socket, for which there is [TrustedHops]. No more than the 32
// right-most entries and 4 KiB are looked at; if these are all trusted and there are more, the peer pays.
//
// It panics without a prefix, on one that is malformed or has bits set behind
// its length, and on 0.0.0.0/0 and ::/0, which would believe every peer.
func TrustedProxies(prefixes ...string) Trust {
	proxies := parsePrefixes("TrustedProxies", prefixes)
	requirePrefixes("TrustedProxies", proxies)
	return func(a *given.Address) {
		a.Believe("TrustedProxies", func(peer netip.Addr, r *http.Request) (netip.Addr, bool) {
			entries := entriesFromRight(r.Header["X-Forwarded-For"], lastComma)
			return firstUntrusted(peer, proxies, entries, parseAddress)
		})
	}
}

// TrustedHops believes the n-th entry of X-Forwarded-For from the right, over all
// its lines: n is the number of your proxies that append to the header.
//
// Use it when their addresses are not known, and only if the server cannot be reached
// except through all of them: a client with another way in writes the header itself.
// If the header has fewer entries, or the n-th is not an address, the peer pays. It
// panics unless 1 ≤ n ≤ 32.
func TrustedHops(n int) Trust {
	if n < 1 || n > mostEntries {
		panic(fmt.Sprintf("keyfuncs: TrustedHops: %d hops, want 1 to %d", n, mostEntries))
	}
	return func(a *given.Address) {
		a.Believe("TrustedHops", func(peer netip.Addr, r *http.Request) (netip.Addr, bool) {
			entries := entriesFromRight(r.Header["X-Forwarded-For"], lastComma)
			var entry string
			for range n {
				var ok bool
				if entry, ok = entries.next(); !ok {
					return peer, false
				}
			}
			return validOr(peer, parseAddress(entry)), false
		})
	}
}

// TrustedHeader believes a header that holds one address, such as X-Real-IP or
// CF-Connecting-IP, if the TCP peer is one of peers: prefixes or addresses, as in
// [TrustedProxies]. Without peers it believes every client that can reach the server.
//
// It is safe only if your edge always overwrites the header; some edges pass on the header of the client. If there is not
// exactly one line with exactly one address, the peer pays. It panics on a name that is no header's, on a malformed peer,
// and on X-Forwarded-For and Forwarded, which are lists.
func TrustedHeader(name string, peers ...string) Trust {
	requireToken("TrustedHeader", name)
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "X-Forwarded-For":
		panic("keyfuncs: TrustedHeader: X-Forwarded-For is a list, use TrustedProxies or TrustedHops")
	case "Forwarded":
		panic("keyfuncs: TrustedHeader: Forwarded is a list, use keyfuncs.Forwarded")
	}
	trusted := parsePrefixes("TrustedHeader", peers)
	return func(a *given.Address) {
		a.Believe("TrustedHeader", func(peer netip.Addr, r *http.Request) (netip.Addr, bool) {
			address := peer
			if lines := r.Header[name]; len(lines) == 1 && (len(trusted) == 0 || contain(trusted, peer)) {
				address = validOr(peer, parseAddress(trimSpace(lines[0])))
			}
			return address, contain(trusted, address)
		})
	}
}

// IPv4Prefix makes the first bits of an IPv4 address count, instead of all 32:
// IPv4Prefix(24) gives "ip:203.0.113.0/24". It panics unless 8 ≤ bits ≤ 32.
func IPv4Prefix(bits int) Trust {
	if bits < 8 || bits > 32 {
		panic(fmt.Sprintf("keyfuncs: IPv4Prefix: %d bits, want 8 to 32", bits))
	}
	return func(a *given.Address) { a.IPv4 = bits }
}

// IPv6Prefix makes the first bits of an IPv6 address count, instead of 64: 56 or
// 48 where providers give their customers that much. It panics unless
// 32 ≤ bits ≤ 128.
//
// More than 64 lets a single client have as many keys as it likes. It is right
// only where the network gives out single addresses. For a gateway that puts every
// IPv4 client in one /96 there is [NAT64].
func IPv6Prefix(bits int) Trust {
	if bits < 32 || bits > 128 {
		panic(fmt.Sprintf("keyfuncs: IPv6Prefix: %d bits, want 32 to 128", bits))
	}
	return func(a *given.Address) { a.IPv6 = bits }
}

// firstUntrusted walks the entries of a list header from the right and returns the first address that is not one of the
// proxies, or the left-most if all are. If the search ends without one, the result is a proxy's own address.
func firstUntrusted(peer netip.Addr, proxies []netip.Prefix, entries entries, parse func(string) netip.Addr) (address netip.Addr, own bool) {
	if !contain(proxies, peer) {
		return peer, false
	}
	leftmost := peer
	for {
		entry, ok := entries.next()
		if !ok {
			break
		}
		address := parse(entry)
		if !address.IsValid() {
			return peer, true
		}
		if !contain(proxies, address) {
			return address, false
		}
		leftmost = address
	}
	if entries.exhausted {
		return peer, true
	}
	return leftmost, true
}

func validOr(peer, address netip.Addr) netip.Addr {
	if address.IsValid() {
		return address
	}
	return peer
}

func contain(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// parsePrefixes reads prefixes and single addresses, and panics on those with an obvious mistake.
func parsePrefixes(caller string, texts []string) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			panic(fmt.Sprintf("keyfuncs: %s: %q: %v", caller, text, err))
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes
}

func requirePrefixes(caller string, prefixes []netip.Prefix) {
	if len(prefixes) == 0 {
		panic("keyfuncs: " + caller + ": no prefix given, so no proxy is trusted; use RemoteIP for that")
	}
}

func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		if address.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("zone %q, which is never compared", address.Zone())
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text) // refuses zones
	if err != nil {
		return netip.Prefix{}, err
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("bits set behind the length, want %v", prefix.Masked())
	}
	if address := prefix.Addr(); address.Is4In6() {
		// A masked prefix of mapped addresses is at least 96 bits long.
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-96)
	}
	if prefix.Bits() == 0 {
		return netip.Prefix{}, errors.New("believes every peer; if the proxies' addresses are not known, use TrustedHops")
	}
	return prefix, nil
}
