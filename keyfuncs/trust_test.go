package keyfuncs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestTrustedProxies(t *testing.T) {
	f := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8", "192.0.2.7", "2001:db8:ffff::/48"))
	for _, test := range []struct {
		name  string
		peer  string
		lines []string
		want  string
	}{
		{"a peer that is no proxy pays itself", "203.0.113.9:1", []string{"X-Forwarded-For: 1.1.1.1"}, "ip:203.0.113.9"},
		{"the right-most untrusted address wins", "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "ip:203.0.113.9"},
		{"trusted addresses are skipped", "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.0.0.7, 192.0.2.7"}, "ip:203.0.113.9"},
		{"two lines are one list", "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"}, "ip:203.0.113.9"},
		{"the walk goes on in the line before", "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9", "X-Forwarded-For: 10.0.0.9", "X-Forwarded-For: 10.0.0.7"}, "ip:203.0.113.9"},
		{"a spoofed trusted address does not help", "10.0.0.5:1", []string{"X-Forwarded-For: 10.0.0.1, 203.0.113.9"}, "ip:203.0.113.9"},
		{"a spoofed loopback does not help", "10.0.0.5:1", []string{"X-Forwarded-For: 127.0.0.1, 203.0.113.9"}, "ip:203.0.113.9"},
		{"a loopback address is an address like others", "10.0.0.5:1", []string{"X-Forwarded-For: 127.0.0.1"}, "ip:127.0.0.1"},
		{"garbage on the left does not matter", "10.0.0.5:1", []string{"X-Forwarded-For: <script>, 203.0.113.9"}, "ip:203.0.113.9"},
		{"garbage at the stopping point gives the peer", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, garbage"}, "ip:10.0.0.5"},
		{"garbage does not fall through to X-Real-IP", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, garbage", "X-Real-Ip: 6.6.6.6"}, "ip:10.0.0.5"},
		{"garbage behind a trusted address gives the peer", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, garbage, 10.0.0.7"}, "ip:10.0.0.5"},
		{"an empty entry is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6,"}, "ip:10.0.0.5"},
		{"an empty line is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: "}, "ip:10.0.0.5"},
		{"a missing header gives the peer", "10.0.0.5:1", nil, "ip:10.0.0.5"},
		{"X-Real-IP is not believed", "10.0.0.5:1", []string{"X-Real-Ip: 6.6.6.6"}, "ip:10.0.0.5"},
		{"Forwarded is not believed", "10.0.0.5:1", []string{"Forwarded: for=6.6.6.6"}, "ip:10.0.0.5"},
		{"all trusted gives the left-most", "10.0.0.5:1", []string{"X-Forwarded-For: 10.0.0.9, 10.0.0.7"}, "ip:10.0.0.9"},
		{"all trusted over two lines gives the left-most", "10.0.0.5:1", []string{"X-Forwarded-For: 10.0.0.9", "X-Forwarded-For: 10.0.0.7"}, "ip:10.0.0.9"},
		{"a port is dropped", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9:4711"}, "ip:203.0.113.9"},
		{"a port of IPv6 is dropped", "10.0.0.5:1", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "ip:2001:db8::/64"},
		{"brackets are dropped", "10.0.0.5:1", []string{"X-Forwarded-For: [2001:db8::1]"}, "ip:2001:db8::/64"},
		{"IPv6 is canonical", "10.0.0.5:1", []string{"X-Forwarded-For: 2001:DB8:0:0::1"}, "ip:2001:db8::/64"},
		{"mapped IPv4 is IPv4", "10.0.0.5:1", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "ip:203.0.113.9"},
		{"mapped IPv4 in brackets is IPv4", "10.0.0.5:1", []string{"X-Forwarded-For: [::ffff:203.0.113.9]:80"}, "ip:203.0.113.9"},
		{"mapped IPv4 in hexadecimal is IPv4", "10.0.0.5:1", []string{"X-Forwarded-For: ::ffff:102:304"}, "ip:1.2.3.4"},
		{"dots do not make IPv6 IPv4", "10.0.0.5:1", []string{"X-Forwarded-For: 2001:db8::1.2.3.4"}, "ip:2001:db8::/64"},
		{"a zone is dropped", "10.0.0.5:1", []string{"X-Forwarded-For: fe80::1%a b"}, "ip:fe80::/64"},
		{"a zone does not hide a trusted address", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, 2001:db8:ffff::1%x"}, "ip:203.0.113.9"},
		{"0.0.0.0 is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, 0.0.0.0"}, "ip:10.0.0.5"},
		{":: is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, ::"}, "ip:10.0.0.5"},
		{"mapped 0.0.0.0 is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: ::ffff:0.0.0.0"}, "ip:10.0.0.5"},
		{"octal is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.010"}, "ip:10.0.0.5"},
		{"unknown is garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, unknown"}, "ip:10.0.0.5"},
		{"spaces and tabs are trimmed", "10.0.0.5:1", []string{"X-Forwarded-For: 1.1.1.1 ,\t 203.0.113.9 \t"}, "ip:203.0.113.9"},
		{"other spaces are garbage", "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6,\u00a0203.0.113.9"}, "ip:10.0.0.5"},
		{"a mapped peer is a trusted proxy", "[::ffff:10.0.0.5]:1", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:203.0.113.9"},
		{"a mapped entry is a trusted proxy", "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9, ::ffff:10.0.0.7"}, "ip:203.0.113.9"},
		{"an IPv6 peer with a zone is a trusted proxy", "[2001:db8:ffff::5%eth0]:1", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:203.0.113.9"},
		{"a peer on a unix socket is no proxy", "@", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:none"},
		{"a peer without address is no proxy", "", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, f, request(test.peer, test.lines...), test.want)
		})
	}
}

func TestTrustedProxiesTakesMappedPrefixesForIPv4(t *testing.T) {
	for _, prefix := range []string{"::ffff:10.0.0.0/104", "::ffff:10.0.0.5"} {
		f := keyfuncs.IP(keyfuncs.TrustedProxies(prefix))
		expectKey(t, f, request("10.0.0.5:1", "X-Forwarded-For: 203.0.113.9"), "ip:203.0.113.9")
	}
}

func TestTrustedHops(t *testing.T) {
	for _, test := range []struct {
		name  string
		n     int
		peer  string
		lines []string
		want  string
	}{
		{"one proxy", 1, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, 203.0.113.9"}, "ip:203.0.113.9"},
		{"two proxies", 2, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.7"}, "ip:203.0.113.9"},
		{"over two lines", 2, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, 203.0.113.9", "X-Forwarded-For: 10.0.0.7"}, "ip:203.0.113.9"},
		{"too short", 2, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6"}, "ip:10.0.0.5"},
		{"missing", 1, "10.0.0.5:1", []string{"X-Real-Ip: 6.6.6.6"}, "ip:10.0.0.5"},
		{"garbage at the place", 1, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, garbage"}, "ip:10.0.0.5"},
		{"unspecified at the place", 1, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, 0.0.0.0"}, "ip:10.0.0.5"},
		{"an empty entry counts", 1, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, "}, "ip:10.0.0.5"},
		{"garbage elsewhere does not matter", 2, "10.0.0.5:1", []string{"X-Forwarded-For: ?, 203.0.113.9:80, ?"}, "ip:203.0.113.9"},
		{"a unix socket", 1, "@", []string{"X-Forwarded-For: 6.6.6.6, 203.0.113.9"}, "ip:203.0.113.9"},
		{"a unix socket without header", 1, "@", nil, "ip:none"},
		{"as far as is looked", 32, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6, 203.0.113.9" + strings.Repeat(", 10.0.0.7", 31)}, "ip:203.0.113.9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, keyfuncs.IP(keyfuncs.TrustedHops(test.n)), request(test.peer, test.lines...), test.want)
		})
	}
}

func TestTrustedHeader(t *testing.T) {
	fromEdge := keyfuncs.IP(keyfuncs.TrustedHeader("x-real-ip", "10.0.0.0/8"))
	fromAnybody := keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-IP"))
	for _, test := range []struct {
		name  string
		f     keyfuncs.Func
		peer  string
		lines []string
		want  string
	}{
		{"one line", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: 203.0.113.9"}, "ip:203.0.113.9"},
		{"canonical", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: [2001:DB8::1]:80"}, "ip:2001:db8::/64"},
		{"another peer", fromEdge, "203.0.113.9:1", []string{"X-Real-Ip: 6.6.6.6"}, "ip:203.0.113.9"},
		{"two lines", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: 6.6.6.6", "X-Real-Ip: 203.0.113.9"}, "ip:10.0.0.5"},
		{"a list", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: 6.6.6.6, 203.0.113.9"}, "ip:10.0.0.5"},
		{"missing", fromEdge, "10.0.0.5:1", []string{"X-Forwarded-For: 6.6.6.6"}, "ip:10.0.0.5"},
		{"empty", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: "}, "ip:10.0.0.5"},
		{"garbage", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: <nil>"}, "ip:10.0.0.5"},
		{"unspecified", fromEdge, "10.0.0.5:1", []string{"X-Real-Ip: ::"}, "ip:10.0.0.5"},
		{"unix socket, peers named", fromEdge, "@", []string{"X-Real-Ip: 203.0.113.9"}, "ip:none"},
		{"unix socket", fromAnybody, "@", []string{"X-Real-Ip: 203.0.113.9"}, "ip:203.0.113.9"},
		{"any peer", fromAnybody, "198.51.100.1:1", []string{"X-Real-Ip: 203.0.113.9"}, "ip:203.0.113.9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, test.f, request(test.peer, test.lines...), test.want)
		})
	}
}

func TestLongHeadersAreReadFromTheRightOnly(t *testing.T) {
	proxies := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	forwarded := keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8"))
	trusted := func(n int) string { return strings.Repeat(", 10.0.0.7", n) }
	trustedFor := func(n int) string { return strings.Repeat(", for=10.0.0.7", n) }
	for _, test := range []struct {
		name string
		f    keyfuncs.Func
		line string
		want string
	}{
		{"a megabyte of entries on the left", proxies, "X-Forwarded-For: " + strings.Repeat("6.6.6.6, ", 1<<17) + "203.0.113.9", "ip:203.0.113.9"},
		{"a megabyte without a comma on the left", proxies, "X-Forwarded-For: " + strings.Repeat("6", 1<<20) + ", 203.0.113.9", "ip:203.0.113.9"},
		{"a megabyte of one entry", proxies, "X-Forwarded-For: " + strings.Repeat("6", 1<<20), "ip:10.0.0.5"},
		{"an entry behind a megabyte of spaces", proxies, "X-Forwarded-For: 203.0.113.9" + strings.Repeat(" ", 1<<20), "ip:10.0.0.5"},
		{"the last entry that may be read", proxies, "X-Forwarded-For: 203.0.113.9" + trusted(31), "ip:203.0.113.9"},
		{"one too many", proxies, "X-Forwarded-For: 203.0.113.9" + trusted(32), "ip:10.0.0.5"},
		{"as many as may be, all trusted", proxies, "X-Forwarded-For: 10.0.0.9" + trusted(31), "ip:10.0.0.9"},
		{"too many, all trusted", proxies, "X-Forwarded-For: 10.0.0.9" + trusted(32), "ip:10.0.0.5"},
		{"a megabyte of elements on the left", forwarded, "Forwarded: " + strings.Repeat("for=6.6.6.6, ", 1<<16) + "for=203.0.113.9", "ip:203.0.113.9"},
		{"a megabyte of quotes on the left", forwarded, "Forwarded: " + strings.Repeat(`"`, 1<<20) + ", for=203.0.113.9", "ip:203.0.113.9"},
		{"a megabyte of backslashes", forwarded, "Forwarded: for=\"" + strings.Repeat(`\`, 1<<20) + `"`, "ip:10.0.0.5"},
		{"one element too many", forwarded, "Forwarded: for=203.0.113.9" + trustedFor(32), "ip:10.0.0.5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, test.f, request("10.0.0.5:1", test.line), test.want)
		})
	}
}

func TestManyHeaderLinesAreBoundedLikeOne(t *testing.T) {
	r := request("10.0.0.5:1")
	for range 1000 {
		r.Header.Add("X-Forwarded-For", "10.0.0.7")
	}
	expectKey(t, keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), r, "ip:10.0.0.5")
	r.Header.Add("X-Forwarded-For", "203.0.113.9")
	expectKey(t, keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), r, "ip:203.0.113.9")
}

func TestARequestWithoutHeaderMapHasItsPeersKey(t *testing.T) {
	r := &http.Request{RemoteAddr: "10.0.0.5:1"}
	for _, trust := range []keyfuncs.Trust{
		keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.TrustedHops(1),
		keyfuncs.TrustedHeader("X-Real-IP"), keyfuncs.Forwarded("10.0.0.0/8"),
	} {
		expectKey(t, keyfuncs.IP(trust), r, "ip:10.0.0.5")
	}
}

func TestMisuseOfTrustPanicsAtStartUp(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func()
		words []string
	}{
		{"two models", func() { keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.TrustedHops(1)) }, []string{"TrustedProxies and TrustedHops", "choose one"}},
		{"one model twice", func() { keyfuncs.IP(keyfuncs.TrustedHops(1), keyfuncs.TrustedHops(2)) }, []string{"choose one"}},
		{"nil Trust", func() { keyfuncs.IP(nil) }, []string{"nil"}},
		{"no prefix", func() { keyfuncs.TrustedProxies() }, []string{"TrustedProxies", "no prefix"}},
		{"no prefix for Forwarded", func() { keyfuncs.Forwarded() }, []string{"Forwarded", "no prefix"}},
		{"malformed prefix", func() { keyfuncs.TrustedProxies("10.0.0/8") }, []string{`"10.0.0/8"`}},
		{"malformed address", func() { keyfuncs.Forwarded("localhost") }, []string{`"localhost"`}},
		{"host bits", func() { keyfuncs.TrustedProxies("10.0.0.1/8") }, []string{"want 10.0.0.0/8"}},
		{"zone in a prefix", func() { keyfuncs.TrustedProxies("fe80::%eth0/64") }, []string{"zone"}},
		{"zone in an address", func() { keyfuncs.TrustedProxies("fe80::1%eth0") }, []string{"zone"}},
		{"every peer in IPv4", func() { keyfuncs.TrustedProxies("0.0.0.0/0") }, []string{"every peer", "TrustedHops"}},
		{"every peer in IPv6", func() { keyfuncs.Forwarded("::/0") }, []string{"every peer"}},
		{"every peer in mapped IPv4", func() { keyfuncs.TrustedProxies("::ffff:0.0.0.0/96") }, []string{"every peer"}},
		{"no hops", func() { keyfuncs.TrustedHops(0) }, []string{"0 hops"}},
		{"negative hops", func() { keyfuncs.TrustedHops(-1) }, []string{"-1 hops"}},
		{"too many hops", func() { keyfuncs.TrustedHops(33) }, []string{"33 hops", "32"}},
		{"X-Forwarded-For as one address", func() { keyfuncs.TrustedHeader("x-forwarded-for") }, []string{"TrustedProxies"}},
		{"Forwarded as one address", func() { keyfuncs.TrustedHeader("forwarded") }, []string{"keyfuncs.Forwarded"}},
		{"no header name", func() { keyfuncs.TrustedHeader("") }, []string{`""`}},
		{"an address for a header name", func() { keyfuncs.TrustedHeader("10.0.0.0/8") }, []string{"10.0.0.0/8"}},
		{"malformed peer", func() { keyfuncs.TrustedHeader("X-Real-IP", "edge") }, []string{`"edge"`}},
		{"IPv4 too short", func() { keyfuncs.IPv4Prefix(7) }, []string{"7 bits"}},
		{"IPv4 too long", func() { keyfuncs.IPv4Prefix(33) }, []string{"33 bits"}},
		{"IPv6 too short", func() { keyfuncs.IPv6Prefix(31) }, []string{"31 bits"}},
		{"IPv6 too long", func() { keyfuncs.IPv6Prefix(129) }, []string{"129 bits"}},
	} {
		t.Run(test.name, func(t *testing.T) { expectPanic(t, test.build, test.words...) })
	}
}
