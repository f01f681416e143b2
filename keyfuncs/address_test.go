package keyfuncs_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestRemoteIPIsOneKeyHoweverTheAddressIsWritten(t *testing.T) {
	for _, test := range []struct{ peer, want string }{
		{"203.0.113.9:4711", "ip:203.0.113.9"},
		{"203.0.113.9", "ip:203.0.113.9"},
		{"[::ffff:203.0.113.9]:4711", "ip:203.0.113.9"},
		{"::ffff:203.0.113.9", "ip:203.0.113.9"},
		{"[::ffff:102:304]:80", "ip:1.2.3.4"},
		{"::ffff:102:304", "ip:1.2.3.4"},
		{"[0:0:0:0:0:FFFF:0102:0304]:80", "ip:1.2.3.4"},

		{"[2001:db8::1]:4711", "ip:2001:db8::/64"},
		{"[2001:DB8:0:0::1]:4711", "ip:2001:db8::/64"},
		{"[2001:db8::1]", "ip:2001:db8::/64"},
		{"2001:db8::1", "ip:2001:db8::/64"},
		{"[2001:db8::ffff:1]:1", "ip:2001:db8::/64"},
		{"[2001:db8:0:1::1]:1", "ip:2001:db8:0:1::/64"},
		{"[2001:db8:1:2:3:4:5:6]:1", "ip:2001:db8:1:2::/64"},

		// Only the bits decide, not the dots.
		{"[2001:db8::1.2.3.4]:1", "ip:2001:db8::/64"},
		{"[::1.2.3.4]:1", "ip:::/64"},
		{"[64:ff9b::1.2.3.4]:1", "ip:64:ff9b::/64"},

		{"[fe80::1%eth0]:4711", "ip:fe80::/64"},
		{"fe80::1%eth1", "ip:fe80::/64"},
		{"[fe80::1%a b|c]:4711", "ip:fe80::/64"},

		{"127.0.0.1:1", "ip:127.0.0.1"},
		{"[::1]:1", "ip:::/64"},

		// No addresses: one fixed bucket, which is nobody's address.
		{"@", "ip:none"},
		{"", "ip:none"},
		{"/run/app.sock", "ip:none"},
		{"<nil>", "ip:none"},
		{"none", "ip:none"},
		{"0.0.0.0:1", "ip:none"},
		{"[::]:1", "ip:none"},
		{"[::ffff:0.0.0.0]:1", "ip:none"},
		{"203.0.113.9:", "ip:none"},
		{"203.0.113.9:http", "ip:none"},
		{"203.0.113.9:70000", "ip:none"},
		{"[203.0.113.9]:80", "ip:none"},
		{"[203.0.113.9]", "ip:none"},
		{"[]", "ip:none"},
		{"[", "ip:none"},
		{"]", "ip:none"},
		{":", "ip:none"},
		{"010.0.0.1:1", "ip:none"},
		{"0x7f.1", "ip:none"},
		{"1.2.3", "ip:none"},
		{"203.0.113.9/24", "ip:none"},
		{"203.0.113.9 ", "ip:none"},
		{"203.0.113.٩", "ip:none"},
		{"203.0.113.9%eth0", "ip:none"},
	} {
		t.Run(test.peer, func(t *testing.T) {
			r := request(test.peer)
			expectKey(t, keyfuncs.RemoteIP, r, test.want)
			expectKey(t, keyfuncs.IP(), r, test.want)
		})
	}
}

// RemoteIP, which takes the text of most peers as it stands, finds what IP finds, which reads each address.
func TestRemoteIPFindsWhatIPFinds(t *testing.T) {
	parts := rapid.SampledFrom([]string{"0", "1", "9", "10", "99", "203", "255", "256", "1000", "00", "01", "", "x", "[", "]", "%e", "::"})
	ports := rapid.SampledFrom([]string{":0", ":1", ":80", ":65535", ":65536", ":080", ":", "", ":99999999999999999999", ":x", ":1:1", ":1.1"})
	byIP := keyfuncs.IP()
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(parts, 3, 5).Draw(t, "parts")
		if rapid.Bool().Draw(t, "usual") {
			some = rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "10", "203", "255"}), 4, 4).Draw(t, "numbers")
		}
		r := &http.Request{RemoteAddr: strings.Join(some, ".") + ports.Draw(t, "port")}
		key, err := keyfuncs.RemoteIP(r)
		want, wrong := byIP(r)
		if key != want || err != nil || wrong != nil {
			t.Errorf("%s: %q, %v; want %q, %v", r.RemoteAddr, key, err, want, wrong)
		}
	})
}

func TestRemoteIPBelievesNoHeader(t *testing.T) {
	for _, line := range []string{
		"X-Forwarded-For: 1.1.1.1",
		"X-Forwarded-For: 127.0.0.1",
		"X-Real-Ip: 1.1.1.1",
		"True-Client-Ip: 1.1.1.1",
		"Cf-Connecting-Ip: 1.1.1.1",
		"Fastly-Client-Ip: 1.1.1.1",
		"X-Azure-Clientip: 1.1.1.1",
		"X-Client-Ip: 1.1.1.1",
		"Forwarded: for=1.1.1.1",
	} {
		t.Run(line, func(t *testing.T) {
			r := request("203.0.113.9:4711", line)
			expectKey(t, keyfuncs.RemoteIP, r, "ip:203.0.113.9")
			expectKey(t, keyfuncs.IP(), r, "ip:203.0.113.9")
			expectKey(t, keyfuncs.IP(keyfuncs.IPv6Prefix(56)), r, "ip:203.0.113.9")
		})
	}
}

func TestDistinctIPv4ClientsStayDistinctWhenMapped(t *testing.T) {
	for _, bits := range []int{32, 48, 56, 64, 96, 128} {
		f := keyfuncs.IP(keyfuncs.IPv6Prefix(bits))
		expectKey(t, f, request("[::ffff:1.2.3.4]:1"), "ip:1.2.3.4")
		expectKey(t, f, request("[::ffff:5.6.7.8]:1"), "ip:5.6.7.8")
	}
}

func TestPrefixLengthsAreSetByOption(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []keyfuncs.Trust
		peer    string
		want    string
	}{
		{"IPv4 by /24", []keyfuncs.Trust{keyfuncs.IPv4Prefix(24)}, "203.0.113.9:1", "ip:203.0.113.0/24"},
		{"mapped IPv4 by /24", []keyfuncs.Trust{keyfuncs.IPv4Prefix(24)}, "[::ffff:203.0.113.9]:1", "ip:203.0.113.0/24"},
		{"IPv4 leaves IPv6 alone", []keyfuncs.Trust{keyfuncs.IPv4Prefix(24)}, "[2001:db8::1]:1", "ip:2001:db8::/64"},
		{"IPv6 by /56", []keyfuncs.Trust{keyfuncs.IPv6Prefix(56)}, "[2001:db8:0:1ff::1]:1", "ip:2001:db8:0:100::/56"},
		{"IPv6 whole", []keyfuncs.Trust{keyfuncs.IPv6Prefix(128)}, "[2001:db8::1]:1", "ip:2001:db8::1"},
		{"both", []keyfuncs.Trust{keyfuncs.IPv4Prefix(16), keyfuncs.IPv6Prefix(48)}, "[2001:db8:1:2::1]:1", "ip:2001:db8:1::/48"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectKey(t, keyfuncs.IP(test.options...), request(test.peer), test.want)
		})
	}
}

func TestPrefixLengthsCountForForwardedAddressesToo(t *testing.T) {
	f := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.IPv4Prefix(24))
	expectKey(t, f, request("10.0.0.5:1", "X-Forwarded-For: 203.0.113.9"), "ip:203.0.113.0/24")
}

// AddressKey is the key of a request from that address.
func TestAddressKeyIsThatOfRemoteIP(t *testing.T) {
	for _, text := range []string{"203.0.113.9", "::ffff:203.0.113.9", "2001:db8::1", "fe80::1%eth0", "2002:102:304:5::1", "0.0.0.0", "::", "::ffff:0.0.0.0"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "[" + text + "]:1234"
		if !strings.Contains(text, ":") {
			r.RemoteAddr = text + ":1234"
		}
		want, err := keyfuncs.RemoteIP(r)
		if got := keyfuncs.AddressKey(netip.MustParseAddr(text)); err != nil || got != want {
			t.Errorf("%s is %s, and RemoteIP says %s, %v", text, got, want, err)
		}
	}
	if got := keyfuncs.AddressKey(netip.Addr{}); got != "ip:none" {
		t.Errorf("no address is %s", got)
	}
}
