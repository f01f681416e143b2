package guardtest

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var identityCases = []testCase{
	{"whose request it is, by every trust model", testIdentity},
	{"what the framework takes for the client's address is brought into one notation", testClientIP},
	{"without proxies that it trusts, the framework's own notion believes nobody", testClientIPTrustsNobody},
}

const (
	proxy  = "10.0.0.5:1"
	client = "203.0.113.9:1"
)

// identity is a request and the keys that each trust model gives it. The proxies at
// 10.0.0.0/8 are trusted.
type identity struct {
	name  string
	peer  string
	lines []string
	// proxies and own are the keys by TrustedProxies, and by the framework's own notion
	// with the same proxies; that of the peer where they are empty.
	proxies, own string
	// hop, realIP and forwarded are the keys by the other models, where they matter.
	hop, realIP, forwarded string
	// advisories are the published ones about this attack.
	advisories string
}

// asItLikes is the key by a framework's own notion where frameworks differ and are
// not wrong.
const asItLikes = "as it likes"

var identities = []identity{
	{
		name: "a header from an untrusted peer", peer: client, lines: []string{"X-Forwarded-For: 1.1.1.1", "X-Real-Ip: 1.1.1.1", "Forwarded: for=1.1.1.1"},
		realIP: "ip:203.0.113.9", forwarded: "ip:203.0.113.9",
		advisories: "CVE-2026-3635 CVE-2025-59152 CVE-2025-66508 CVE-2020-28483 GHSA-246p-cpwv-v3jq GHSA-pqg7-v6wh-3pfp",
	},
	{
		name: "the left-most entry is the client's own", peer: proxy, lines: []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"},
		proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", hop: "ip:203.0.113.9",
		advisories: "GHSA-9g5q-2w5x-hmxf GHSA-rjr7-jggh-pgcp CVE-2026-29794",
	},
	{
		name: "two lines are one list", peer: proxy, lines: []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"},
		proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", hop: "ip:203.0.113.9", advisories: "gin#4472",
	},
	{
		name: "garbage at the stopping point", peer: proxy, lines: []string{"X-Forwarded-For: 203.0.113.9, garbage", "X-Real-Ip: 6.6.6.6"},
		hop: "ip:10.0.0.5", advisories: "CVE-2026-57210",
	},
	{name: "an address with a port", peer: proxy, lines: []string{"X-Forwarded-For: 203.0.113.9:4711"}, proxies: "ip:203.0.113.9", hop: "ip:203.0.113.9"},
	{name: "IPv6 in another notation", peer: proxy, lines: []string{"X-Forwarded-For: 2001:DB8:0:0::1"}, proxies: "ip:2001:db8::/64", own: "ip:2001:db8::/64", advisories: "CVE-2026-45364"},
	{name: "IPv6 in brackets", peer: proxy, lines: []string{"X-Forwarded-For: [2001:db8::1]"}, proxies: "ip:2001:db8::/64", hop: "ip:2001:db8::/64", own: asItLikes},
	{name: "IPv6 with a port", peer: proxy, lines: []string{"X-Forwarded-For: [2001:db8::1]:80"}, proxies: "ip:2001:db8::/64", hop: "ip:2001:db8::/64", own: asItLikes},
	{name: "mapped IPv4", peer: proxy, lines: []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", advisories: "CVE-2026-30827"},
	{name: "mapped IPv4 in hexadecimal", peer: proxy, lines: []string{"X-Forwarded-For: ::ffff:102:304"}, proxies: "ip:1.2.3.4", own: "ip:1.2.3.4", advisories: "express-rate-limit 8.6.2"},
	{name: "dots do not make IPv6 IPv4", peer: proxy, lines: []string{"X-Forwarded-For: 2001:db8::1.2.3.4"}, proxies: "ip:2001:db8::/64", own: "ip:2001:db8::/64", advisories: "express-rate-limit 8.6.2"},
	{name: "IPv4-compatible IPv6 is IPv6", peer: proxy, lines: []string{"X-Forwarded-For: ::1.2.3.4"}, proxies: "ip:::/64", own: "ip:::/64"},
	{name: "6to4", peer: proxy, lines: []string{"X-Forwarded-For: 2002:cb00:7109:1::1"}, proxies: "ip:2002:cb00:7109::/48", own: "ip:2002:cb00:7109::/48"},
	{name: "Teredo", peer: proxy, lines: []string{"X-Forwarded-For: 2001:0:4136:e378:8000:63bf:34ff:8ef6"}, proxies: "ip:2001:0:4136:e378::/64", own: "ip:2001:0:4136:e378::/64"},
	{name: "all trusted", peer: proxy, lines: []string{"X-Forwarded-For: 10.0.0.9, 10.0.0.7"}, proxies: "ip:10.0.0.9", own: "ip:10.0.0.9"},
	{name: "a mapped peer", peer: "[::ffff:203.0.113.9]:1"},
	{name: "a mapped proxy", peer: "[::ffff:10.0.0.5]:1", lines: []string{"X-Forwarded-For: 203.0.113.9"}, proxies: "ip:203.0.113.9", own: "ip:203.0.113.9"},
	{name: "a peer with a zone", peer: "[fe80::1%eth0]:1"},
	{name: "a unix socket", peer: "@"},
	{name: "unspecified IPv4", peer: proxy, lines: []string{"X-Forwarded-For: 0.0.0.0"}, hop: "ip:10.0.0.5"},
	{name: "unspecified IPv6", peer: proxy, lines: []string{"X-Forwarded-For: ::"}},
	{name: "loopback that is spoofed", peer: proxy, lines: []string{"X-Forwarded-For: 127.0.0.1, 203.0.113.9"}, proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", advisories: "CVE-2023-49952"},
	{name: "loopback that a proxy tells", peer: proxy, lines: []string{"X-Forwarded-For: 127.0.0.1"}, proxies: "ip:127.0.0.1", own: "ip:127.0.0.1", advisories: "CVE-2023-49952"},
	{name: "octal", peer: proxy, lines: []string{"X-Forwarded-For: 010.0.0.1"}},
	{name: "hexadecimal", peer: proxy, lines: []string{"X-Forwarded-For: 0x7f.1"}},
	{name: "too few bytes", peer: proxy, lines: []string{"X-Forwarded-For: 1.2.3"}},
	{name: "a prefix", peer: proxy, lines: []string{"X-Forwarded-For: 2001:db8::/64"}},
	{name: "digits that are not ASCII", peer: proxy, lines: []string{"X-Forwarded-For: ١.1.1.1"}},
	{name: "an empty entry", peer: proxy, lines: []string{"X-Forwarded-For: 6.6.6.6, "}, hop: "ip:10.0.0.5"},
	{
		name: "a megabyte on the left", peer: proxy, lines: []string{"X-Forwarded-For: " + strings.Repeat("6.6.6.6, ", 100_000) + "203.0.113.9"},
		proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", hop: "ip:203.0.113.9",
	},
	{name: "a header of many trusted addresses", peer: proxy, lines: []string{"X-Forwarded-For: 6.6.6.6" + strings.Repeat(", 10.0.0.7", 1000)}, own: "ip:6.6.6.6"},
	{
		name: "a proxy that tells the client", peer: proxy, lines: []string{"X-Forwarded-For: 203.0.113.9"},
		proxies: "ip:203.0.113.9", own: "ip:203.0.113.9", hop: "ip:203.0.113.9", advisories: "CVE-2026-46415 GHSA-fq34-xw6c-fphf",
	},
	{name: "headers that nobody named", peer: proxy, lines: []string{"True-Client-Ip: 6.6.6.6", "X-Client-Ip: 6.6.6.6", "Cf-Connecting-Ip: 6.6.6.6"}, advisories: "CVE-2026-46356 CVE-2026-24000"},

	{name: "one header", peer: proxy, lines: []string{"X-Real-Ip: 203.0.113.9"}, realIP: "ip:203.0.113.9", own: asItLikes},
	{name: "one header that is there twice", peer: proxy, lines: []string{"X-Real-Ip: 6.6.6.6", "X-Real-Ip: 203.0.113.9"}, realIP: "ip:10.0.0.5", own: asItLikes, advisories: "CVE-2026-45045"},
	{name: "one header with a list", peer: proxy, lines: []string{"X-Real-Ip: 6.6.6.6, 203.0.113.9"}, realIP: "ip:10.0.0.5", own: asItLikes, advisories: "CVE-2026-45045"},
	{name: "one header that the client had deleted", peer: proxy, lines: []string{"Connection: X-Real-Ip"}, realIP: "ip:10.0.0.5", advisories: "CVE-2026-29054 CVE-2024-45410"},

	{name: "Forwarded", peer: proxy, lines: []string{"Forwarded: for=6.6.6.6, for=203.0.113.9;proto=https"}, forwarded: "ip:203.0.113.9"},
	{name: "Forwarded, quoted IPv6 with a port", peer: proxy, lines: []string{`Forwarded: For="[2001:DB8::1]:4711"`}, forwarded: "ip:2001:db8::/64"},
	{name: "Forwarded, a comma in quotes", peer: proxy, lines: []string{`Forwarded: for=203.0.113.9;host="a, for=6.6.6.6"`}, forwarded: "ip:203.0.113.9", advisories: "CVE-2026-57210"},
	{name: "Forwarded, an open quote", peer: proxy, lines: []string{`Forwarded: for="6.6.6.6, for=203.0.113.9`}, forwarded: "ip:203.0.113.9", advisories: "CVE-2026-57210"},
	{name: "Forwarded, hidden", peer: proxy, lines: []string{`Forwarded: for=6.6.6.6, for="_gazonk:_p1"`}, forwarded: "ip:10.0.0.5"},
	{name: "Forwarded, unknown", peer: proxy, lines: []string{`Forwarded: for=6.6.6.6, for=unknown`}, forwarded: "ip:10.0.0.5"},
}

func testIdentity(t *testing.T, s *suite) {
	for _, model := range []struct {
		name string
		by   keyfuncs.Func
		want func(*identity) string
	}{
		{"RemoteIP", keyfuncs.RemoteIP, func(row *identity) string { return row.peerKey("ip:") }},
		{"IP", keyfuncs.IP(), func(row *identity) string { return row.peerKey("ip:") }},
		{"nobody", keyfuncs.User(func(*http.Request) string { return "" }), func(row *identity) string { return row.peerKey("anonymous:") }},
		{"TrustedProxies", keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), func(row *identity) string { return cmp.Or(row.proxies, row.peerKey("ip:")) }},
		{"TrustedHops", keyfuncs.IP(keyfuncs.TrustedHops(1)), func(row *identity) string { return row.hop }},
		{"TrustedHeader", keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-IP", "10.0.0.0/8")), func(row *identity) string { return row.realIP }},
		{"Forwarded", keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8")), func(row *identity) string { return row.forwarded }},
	} {
		f := s.fixture(t)
		f.expectIdentities(f.around(f.limited(guard.Policy{Limit: many(), By: model.by})), model.name, model.want)
	}
}

// expectIdentities sends each request of the table and wants the key that is wanted
// of it, if any is.
func (f *fixture) expectIdentities(h http.Handler, model string, want func(*identity) string) {
	f.t.Helper()
	for i := range identities {
		row := &identities[i]
		if want(row) == "" {
			continue
		}
		r := ask(http.MethodGet, "/", row.lines...)
		r.RemoteAddr = row.peer
		expectStatus(f.t, row.name, h, r, http.StatusOK)
		if got := f.event().Outcomes[0].Key; got != want(row) {
			f.t.Errorf("%s, by %s: key %q, want %q", row.name, model, got, want(row))
		}
	}
}

// many is a limit that no test reaches.
func many() core.Limit { return core.FixedWindow(1_000_000, time.Minute) }

func testClientIP(t *testing.T, s *suite) {
	if s.clientIP == nil {
		t.Skip("no such notion")
	}
	f := s.fixture(t)
	h := f.serve(site{
		proxies: []string{"10.0.0.0/8"},
		around:  []middleware{f.limited(guard.Policy{Limit: many(), By: s.clientIP()})},
		handler: f.handle,
	})
	f.expectIdentities(h, "ClientIP", func(row *identity) string {
		if row.own == asItLikes {
			return ""
		}
		return cmp.Or(s.differs[row.name], row.own, row.peerKey("ip:"))
	})

	h = f.serve(site{
		proxies: []string{"10.0.0.0/8"},
		around:  []middleware{f.limited(guard.Policy{Limit: ten(), By: s.clientIP(keyfuncs.IPv4Prefix(24))})},
		handler: f.handle,
	})
	r := ask(http.MethodGet, "/", "X-Forwarded-For: 203.0.113.9")
	r.RemoteAddr = proxy
	send(h, r)
	f.expectKeys("ip:203.0.113.0/24")
}

func testClientIPTrustsNobody(t *testing.T, s *suite) {
	if s.clientIP == nil {
		t.Skip("no such notion")
	}
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten(), By: s.clientIP()}))
	get(h, "X-Forwarded-For: 6.6.6.6", "X-Real-Ip: 6.6.6.6")
	f.expectKeys("ip:203.0.113.9")

	got, err := s.clientIP()(ask(http.MethodGet, "/", "X-Forwarded-For: 6.6.6.6"))
	if got != "ip:203.0.113.9" || err != nil {
		t.Errorf("outside of the framework: key %q, error %v, want the peer's", got, err)
	}
	expectPanic(t, func() { s.clientIP(keyfuncs.TrustedHops(1)) }, "keyfuncs: ", "two trust models")
}

// peerKey returns the key of the peer in some namespace.
func (row *identity) peerKey(namespace string) string {
	return namespace + map[string]string{
		client: "203.0.113.9", proxy: "10.0.0.5", "[::ffff:203.0.113.9]:1": "203.0.113.9", "[::ffff:10.0.0.5]:1": "10.0.0.5",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "none",
	}[row.peer]
}
