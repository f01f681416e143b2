package keyfuncs_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The examples of RFC 6052, section 2.4.
func TestNAT64(t *testing.T) {
	for prefix, address := range map[string]string{
		"2001:db8::/32":            "2001:db8:c000:221::",
		"2001:db8:100::/40":        "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":        "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56":    "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64":    "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96":    "2001:db8:122:344::192.0.2.33",
		"64:ff9b::/96":             "64:ff9b::c000:221",
		"64:ff9b:1:ffff::1:0:0/96": "64:ff9b:1:ffff:0:1:192.0.2.33",
	} {
		expectKey(t, keyfuncs.IP(keyfuncs.NAT64(prefix)), request("["+address+"]:1"), "ip:192.0.2.33")
	}
}

func TestNAT64IsOnRequestAndForItsPrefixes(t *testing.T) {
	const client = "[64:ff9b::203.0.113.9]:1"
	expectKey(t, keyfuncs.RemoteIP, request(client), "ip:64:ff9b::/64")
	expectKey(t, keyfuncs.IP(), request(client), "ip:64:ff9b::/64")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64()), request(client), "ip:203.0.113.9")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64(), keyfuncs.IPv4Prefix(24)), request(client), "ip:203.0.113.0/24")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64("2001:db8:64::/96")), request(client), "ip:64:ff9b::/64")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64("2001:db8:64::/96", "64:ff9b::/96")), request(client), "ip:203.0.113.9")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64()), request("[64:ff9b::]:1"), "ip:64:ff9b::/64")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64()), request("[64:ff9b:1::203.0.113.9]:1"), "ip:64:ff9b:1::/64")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64()), request("203.0.113.9:1"), "ip:203.0.113.9")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64(), keyfuncs.TrustedProxies("10.0.0.0/8")),
		request("10.0.0.5:1", "X-Forwarded-For: 64:ff9b::203.0.113.9"), "ip:203.0.113.9")
	expectKey(t, keyfuncs.IP(keyfuncs.NAT64(), keyfuncs.TrustedProxies("64:ff9b::192.0.2.1")),
		request("[64:ff9b::192.0.2.1]:1", "X-Forwarded-For: 203.0.113.9"), "ip:203.0.113.9")
}

func TestBadNAT64PrefixesPanic(t *testing.T) {
	for prefix, words := range map[string]string{
		"64:ff9b::/95": "95 bits", "64:ff9b::1": "128 bits", "64:ff9b::1/96": "bits set", "192.0.2.0/24": "IPv4", "nowhere": "nowhere",
	} {
		expectPanic(t, func() { keyfuncs.NAT64(prefix) }, "NAT64", words)
	}
}

// Whoever has one IPv4 address has a /48 of 6to4.
func Test6to4CountsBy48(t *testing.T) {
	for _, peer := range []string{"[2002:cb00:7109::1]:1", "[2002:cb00:7109:ffff::1]:1"} {
		expectKey(t, keyfuncs.RemoteIP, request(peer), "ip:2002:cb00:7109::/48")
		expectKey(t, keyfuncs.Anonymous, request(peer), "anonymous:2002:cb00:7109::/48")
		expectKey(t, keyfuncs.IP(keyfuncs.IPv6Prefix(128)), request(peer), "ip:2002:cb00:7109::/48")
		expectKey(t, keyfuncs.IP(keyfuncs.IPv6Prefix(40)), request(peer), "ip:2002:cb00:7100::/40")
	}
	expectKey(t, keyfuncs.RemoteIP, request("[2003:cb00:7109:ffff::1]:1"), "ip:2003:cb00:7109:ffff::/64")
}

func TestIPBelievesTheAddressThatAFrameworkHasFound(t *testing.T) {
	for said, want := range map[string]string{
		"203.0.113.9":           "ip:203.0.113.9",
		" 203.0.113.9 ":         "ip:203.0.113.9",
		"203.0.113.9:4711":      "ip:203.0.113.9",
		"::ffff:203.0.113.9":    "ip:203.0.113.9",
		"2001:DB8:0:0::1":       "ip:2001:db8::/64",
		"fe80::1%eth0":          "ip:fe80::/64",
		"":                      "ip:10.0.0.5",
		"<nil>":                 "ip:10.0.0.5",
		"unknown":               "ip:10.0.0.5",
		"0.0.0.0":               "ip:10.0.0.5",
		"::":                    "ip:10.0.0.5",
		"1.1.1.1, 203.0.113.9":  "ip:10.0.0.5",
		"203.0.113.9, 10.0.0.7": "ip:10.0.0.5",
	} {
		f := keyfuncs.IP(given.FoundBy(func(*http.Request) string { return said }))
		expectKey(t, f, request("10.0.0.5:1", "X-Forwarded-For: 6.6.6.6"), want)
	}
	resolve := func(*http.Request) string { return "2001:db8:1:2::1" }
	expectKey(t, keyfuncs.IP(given.FoundBy(resolve), keyfuncs.IPv6Prefix(56)), request("@"), "ip:2001:db8:1::/56")
	expectPanic(t, func() { keyfuncs.IP(given.FoundBy(resolve), keyfuncs.TrustedHops(1)) }, "the framework's own and TrustedHops")
}
