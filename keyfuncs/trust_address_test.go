package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestAddressIsWhole(t *testing.T) {
	proxies := keyfuncs.TrustedProxies("10.0.0.0/8")
	for _, test := range []struct {
		name  string
		find  func(*http.Request) netip.Addr
		peer  string
		lines []string
		want  string
	}{
		{"the peer", keyfuncs.Address(), "203.0.113.9:1", []string{"X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"IPv6 is not shortened", keyfuncs.Address(), "[2001:db8::9]:1", nil, "2001:db8::9"},
		{"nor where keys are", keyfuncs.Address(keyfuncs.IPv6Prefix(48), keyfuncs.IPv4Prefix(8)), "[2001:db8:1:2::9]:1", nil, "2001:db8:1:2::9"},
		{"nor is IPv4", keyfuncs.Address(keyfuncs.IPv6Prefix(48), keyfuncs.IPv4Prefix(8)), "203.0.113.9:1", nil, "203.0.113.9"},
		{"6to4 is IPv6", keyfuncs.Address(), "[2002:cb00:7109:1::1]:1", nil, "2002:cb00:7109:1::1"},
		{"mapped IPv4 is IPv4", keyfuncs.Address(), "[::ffff:203.0.113.9]:1", nil, "203.0.113.9"},
		{"a zone is dropped", keyfuncs.Address(), "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"the client behind a proxy", keyfuncs.Address(proxies), "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1, 2001:db8::9"}, "2001:db8::9"},
		{"a header from no proxy", keyfuncs.Address(proxies), "203.0.113.9:1", []string{"X-Forwarded-For: 10.0.0.7"}, "203.0.113.9"},
		{"garbage gives the peer", keyfuncs.Address(proxies), "10.0.0.5:1", []string{"X-Forwarded-For: garbage"}, "10.0.0.5"},
		{"NAT64 is IPv4", keyfuncs.Address(keyfuncs.NAT64()), "[64:ff9b::203.0.113.9]:1", nil, "203.0.113.9"},
		{"NAT64 in a header, too", keyfuncs.Address(proxies, keyfuncs.NAT64()), "10.0.0.5:1", []string{"X-Forwarded-For: 64:ff9b::203.0.113.9"}, "203.0.113.9"},
		{"a unix socket has none", keyfuncs.Address(), "@", nil, "invalid IP"},
	} {
		if got := test.find(request(test.peer, test.lines...)).String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestAddressPanicsWhereIPDoes(t *testing.T) {
	expectPanic(t, func() { keyfuncs.Address(nil) }, "keyfuncs: Address: a Trust is nil")
	expectPanic(t, func() { keyfuncs.Address(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.TrustedHops(1)) },
		"keyfuncs: Address: TrustedProxies and TrustedHops are two trust models, choose one")
}

func TestAddressAllocatesNothing(t *testing.T) {
	find, r := keyfuncs.Address(keyfuncs.TrustedProxies("10.0.0.0/8")), request("10.0.0.5:1", "X-Forwarded-For: 1.1.1.1, 2001:db8::9")
	if n := testing.AllocsPerRun(100, func() { find(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
