package keyfuncs_test

import (
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestForwarded(t *testing.T) {
	f := keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8", "2001:db8:ffff::/48"))
	const peer = "ip:10.0.0.5"
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"an address", []string{`Forwarded: for=203.0.113.9`}, "ip:203.0.113.9"},
		{"a quoted address", []string{`Forwarded: for="203.0.113.9"`}, "ip:203.0.113.9"},
		{"a quoted address with port", []string{`Forwarded: for="203.0.113.9:4711"`}, "ip:203.0.113.9"},
		{"an unquoted port is tolerated", []string{`Forwarded: for=203.0.113.9:4711`}, "ip:203.0.113.9"},
		{"a hidden port", []string{`Forwarded: for="203.0.113.9:_p1"`}, "ip:203.0.113.9"},
		{"IPv6", []string{`Forwarded: for="[2001:db8::1]"`}, "ip:2001:db8::/64"},
		{"IPv6 with port", []string{`Forwarded: for="[2001:DB8:0::1]:4711"`}, "ip:2001:db8::/64"},
		{"IPv6 with hidden port", []string{`Forwarded: for="[2001:db8::1]:_p1"`}, "ip:2001:db8::/64"},
		{"mapped IPv4", []string{`Forwarded: for="[::ffff:203.0.113.9]:80"`}, "ip:203.0.113.9"},
		{"a zone is dropped", []string{`Forwarded: for="[fe80::1%a b]"`}, "ip:fe80::/64"},
		{"IPv6 without brackets", []string{`Forwarded: for=2001:db8::1`}, "ip:2001:db8::/64"},
		{"IPv6 without brackets, quoted", []string{`Forwarded: for="2001:db8::1"`}, "ip:2001:db8::/64"},
		{"IPv6 without brackets, among other parameters", []string{`Forwarded: proto=https;for=2001:DB8:1:2:a:b:c:d;by=10.0.0.5`}, "ip:2001:db8:1:2::/64"},
		{"IPv6 without brackets, in full and with digits at its end", []string{`Forwarded: for=2001:db8:1:2:3:4:5:80`}, "ip:2001:db8:1:2::/64"},
		{"IPv6 without brackets, whose end is no port", []string{`Forwarded: for=2001:db8::a:f0`}, "ip:2001:db8::/64"},
		{"mapped IPv4 without brackets", []string{`Forwarded: for=::ffff:203.0.113.9`}, "ip:203.0.113.9"},
		{"trusted IPv6 without brackets is skipped", []string{`Forwarded: for=6.6.6.6, for=203.0.113.9, for=2001:db8:ffff::1`}, "ip:203.0.113.9"},
		{"names are in any case", []string{`Forwarded: FOR=203.0.113.9`}, "ip:203.0.113.9"},
		{"other parameters", []string{`Forwarded: by=10.0.0.5;for=203.0.113.9;host=example.com;proto=https`}, "ip:203.0.113.9"},
		{"spaces around pairs", []string{`Forwarded: proto=https ; for=203.0.113.9 ; by="x" `}, "ip:203.0.113.9"},
		{"empty pairs", []string{`Forwarded: ;for=203.0.113.9;;`}, "ip:203.0.113.9"},
		{"escapes in a quoted string", []string{`Forwarded: for="203\.0.113.\9"`}, "ip:203.0.113.9"},
		{"a quoted comma separates nothing", []string{`Forwarded: for=203.0.113.9;host="a, for=6.6.6.6"`}, "ip:203.0.113.9"},
		{"a quoted semicolon separates nothing", []string{`Forwarded: host="a;for=6.6.6.6";for=203.0.113.9`}, "ip:203.0.113.9"},
		{"an escaped quote ends nothing", []string{`Forwarded: for=203.0.113.9;host="a\", for=6.6.6.6, \""`}, "ip:203.0.113.9"},
		{"an escaped backslash escapes nothing", []string{`Forwarded: for=6.6.6.6;host="a\\", for=203.0.113.9;host="b\\"`}, "ip:203.0.113.9"},
		{"the right-most untrusted wins", []string{`Forwarded: for=6.6.6.6, for=203.0.113.9, for=10.0.0.7`}, "ip:203.0.113.9"},
		{"two lines are one list", []string{`Forwarded: for=6.6.6.6, for=203.0.113.9`, `Forwarded: for=10.0.0.7`}, "ip:203.0.113.9"},
		{"trusted IPv6 is skipped", []string{`Forwarded: for=203.0.113.9, for="[2001:db8:ffff::1]"`}, "ip:203.0.113.9"},
		{"all trusted gives the left-most", []string{`Forwarded: for=10.0.0.9, for=10.0.0.7`}, "ip:10.0.0.9"},
		{"an open quote on the left swallows nothing", []string{`Forwarded: for="6.6.6.6, for=203.0.113.9`}, "ip:203.0.113.9"},
		{"an escaped open quote on the left swallows nothing", []string{`Forwarded: for="6.6.6.6\", for=203.0.113.9;proto="http"`}, "ip:203.0.113.9"},

		{"missing", nil, peer},
		{"X-Forwarded-For is not believed", []string{`X-Forwarded-For: 6.6.6.6`}, peer},
		{"no fall through to X-Forwarded-For", []string{`Forwarded: for=unknown`, `X-Forwarded-For: 6.6.6.6`}, peer},
		{"empty", []string{`Forwarded: `}, peer},
		{"an empty element", []string{`Forwarded: for=6.6.6.6,`}, peer},
		{"unknown", []string{`Forwarded: for=6.6.6.6, for=unknown`}, peer},
		{"unknown with port", []string{`Forwarded: for=6.6.6.6, for="unknown:80"`}, peer},
		{"hidden", []string{`Forwarded: for=6.6.6.6, for=_hidden`}, peer},
		{"hidden behind a trusted address", []string{`Forwarded: for=6.6.6.6, for=_hidden, for=10.0.0.7`}, peer},
		{"no for", []string{`Forwarded: for=6.6.6.6, proto=https`}, peer},
		{"two fors", []string{`Forwarded: for=6.6.6.6;for=203.0.113.9`}, peer},
		{"empty for", []string{`Forwarded: for=`}, peer},
		{"empty quoted for", []string{`Forwarded: for=""`}, peer},
		{"unspecified", []string{`Forwarded: for=0.0.0.0`}, peer},
		{"IPv6 without brackets, or one with a port", []string{`Forwarded: for=6.6.6.6, for=2001:db8::1:4711`}, peer},
		{"the same, quoted", []string{`Forwarded: for=6.6.6.6, for="2001:db8::1:4711"`}, peer},
		{"the same, mapped", []string{`Forwarded: for=6.6.6.6, for=::ffff:cb00:7109`}, peer},
		{"IPv6 without brackets, and a port", []string{`Forwarded: for=2001:db8:1:2:3:4:5:6:80`}, peer},
		{"IPv6 without brackets, and a long port", []string{`Forwarded: for="2001:db8::1:47110"`}, peer},
		{"IPv6 without brackets, and a hidden port", []string{`Forwarded: for="2001:db8::1:_p1"`}, peer},
		{"mapped IPv4 without brackets, and a port", []string{`Forwarded: for=::ffff:203.0.113.9:80`}, peer},
		{"unspecified IPv6 without brackets", []string{`Forwarded: for=::`}, peer},
		{"unspecified IPv6 without brackets, and a port", []string{`Forwarded: for=::0:80`}, peer},
		{"an opening bracket alone", []string{`Forwarded: for=[2001:db8::1`}, peer},
		{"IPv4 in brackets", []string{`Forwarded: for="[203.0.113.9]"`}, peer},
		{"no pair", []string{`Forwarded: 6.6.6.6`}, peer},
		{"space in front of the equals sign", []string{`Forwarded: for =6.6.6.6`}, peer},
		{"a bad name", []string{`Forwarded: for=6.6.6.6;a b=c`}, peer},
		{"text behind a quoted string", []string{`Forwarded: for="6.6.6.6"x`}, peer},
		{"a quote inside a token", []string{`Forwarded: for=6.6.6.6;host=a"b"`}, peer},
		{"an open quote", []string{`Forwarded: for="6.6.6.6`}, peer},
		{"an open escape", []string{`Forwarded: for="6.6.6.6\`}, peer},
		{"a bad port", []string{`Forwarded: for="6.6.6.6:http"`}, peer},
		{"a long port", []string{`Forwarded: for="6.6.6.6:123456"`}, peer},
		{"an empty port", []string{`Forwarded: for="6.6.6.6:"`}, peer},
		{"an empty hidden port", []string{`Forwarded: for="6.6.6.6:_"`}, peer},
		{"text behind brackets", []string{`Forwarded: for="[2001:db8::1]80"`}, peer},
		{"text in front of brackets", []string{`Forwarded: for="x[2001:db8::1]"`}, peer},
		{"only a closing bracket", []string{`Forwarded: for="]"`}, peer},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, f, request("10.0.0.5:1", test.lines...), test.want)
		})
	}
}

func TestForwardedFromAnotherPeerIsNotRead(t *testing.T) {
	f := keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8"))
	expectKey(t, f, request("203.0.113.9:1", "Forwarded: for=6.6.6.6"), "ip:203.0.113.9")
	expectKey(t, f, request("@", "Forwarded: for=6.6.6.6"), "ip:none")
}
