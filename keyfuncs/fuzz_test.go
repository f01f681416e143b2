package keyfuncs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// expectCanonical wants an address key whose text is the only one of its address
// or prefix.
func expectCanonical(t *testing.T, got string) {
	t.Helper()
	text, ok := strings.CutPrefix(got, "ip:")
	if !ok {
		t.Fatalf("key %q, want an address", got)
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() && address.String() == text {
		return
	}
	prefix, err := netip.ParsePrefix(text)
	bits := 64
	if err == nil && netip.MustParsePrefix("2002::/16").Contains(prefix.Addr()) {
		bits = 48
	}
	if err != nil || prefix.Bits() != bits || prefix != prefix.Masked() || prefix.String() != text || prefix.Addr().Zone() != "" {
		t.Fatalf("key %q is not canonical", got)
	}
	if again := key(t, keyfuncs.RemoteIP, request("["+prefix.Addr().Next().String()+"]:1")); again != got {
		t.Fatalf("an address of key %q has the key %q", got, again)
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, header := range []string{
		"", "1.1.1.1", "1.1.1.1, 203.0.113.9", "garbage", "10.0.0.1, 10.0.0.2", ",,,", "[::ffff:1.2.3.4]:80", "fe80::1%a b",
		"::ffff:102:304\n2001:db8::1.2.3.4", strings.Repeat("10.0.0.1,", 40), strings.Repeat(" ", 5000),
	} {
		f.Add(header)
	}
	models := []keyfuncs.Func{
		keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")),
		keyfuncs.IP(keyfuncs.TrustedHops(1)),
		keyfuncs.IP(keyfuncs.TrustedHops(3)),
		keyfuncs.IP(keyfuncs.TrustedHeader("X-Forwarded")),
		keyfuncs.IP(given.FoundBy(func(r *http.Request) string { return r.Header["X-Forwarded"][0] })),
		keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.NAT64()),
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := request("10.0.0.5:1")
		r.Header["X-Forwarded-For"] = strings.Split(header, "\n")
		r.Header["X-Forwarded"] = strings.Split(header, "\n")
		for _, model := range models {
			expectCanonical(t, key(t, model, r))
		}

		// A trusted proxy appends the client's address, to the last line or as a
		// line of its own. Whatever the client sent in front of it does not matter.
		lines := strings.Split(header, "\n")
		last := len(lines) - 1
		appended := slices.Clone(lines)
		appended[last] += ", 203.0.113.9"
		for _, written := range [][]string{appended, append(slices.Clone(lines), "203.0.113.9")} {
			r.Header["X-Forwarded-For"] = written
			expectKey(t, models[0], r, "ip:203.0.113.9")
			expectKey(t, models[1], r, "ip:203.0.113.9")
			twice := append(slices.Clone(written), "10.0.0.7")
			r.Header["X-Forwarded-For"] = twice
			expectKey(t, models[0], r, "ip:203.0.113.9")
		}
	})
}

func FuzzForwarded(f *testing.F) {
	for _, header := range []string{
		"", "for=1.1.1.1", `for="[2001:db8::1]:80";proto=https`, `for="`, `for="\`, `for=unknown, for=_x`, `host="a, b";for=1.1.1.1`,
		"for=10.0.0.1\nfor=10.0.0.2", "for=2001:db8::1", "for=2001:db8::1:80, for=::", strings.Repeat(`"`, 5000), strings.Repeat(`\"`, 2500), strings.Repeat("for=10.0.0.1,", 40),
	} {
		f.Add(header)
	}
	model := keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8"))
	f.Fuzz(func(t *testing.T, header string) {
		r := request("10.0.0.5:1")
		lines := strings.Split(header, "\n")
		r.Header["Forwarded"] = lines
		expectCanonical(t, key(t, model, r))

		// What a trusted proxy appends is read alike, whatever it is appended to.
		for _, element := range []string{
			`for=203.0.113.9`,
			`for="203.0.113.9:80";proto=http`,
			`by="[::1]";host="a, \"for=6.6.6.6\\";for=203.0.113.9`,
			`for=203.0.113.9;host="x,y", for="10.0.0.7"`,
		} {
			appended := slices.Clone(lines)
			appended[len(lines)-1] += ", " + element
			r.Header["Forwarded"] = appended
			expectKey(t, model, r, "ip:203.0.113.9")
		}
		for _, element := range []string{`for=2001:db8:1:2::9`, `proto=https;for="2001:db8:1:2::9"`, `for=2001:db8:1:2::9, for=10.0.0.7`} {
			r.Header["Forwarded"] = append(slices.Clone(lines), element)
			expectKey(t, model, r, "ip:2001:db8:1:2::/64")
		}
	})
}

// An IPv6 address without brackets is read as itself or not at all, and with a port
// behind it never: a proxy that appends ports would let its clients choose their keys.
func FuzzForwardedWithoutBrackets(f *testing.F) {
	address := func(high, low uint64) netip.Addr {
		return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)))
	}
	for _, seed := range []string{"2001:db8::1", "2001:db8::1:80", "2001:db8:0:0:1:2:3:4", "2001:db8:1:2:3:4:5:6", "::ffff:1.2.3.4", "::", "::1", "1::"} {
		bytes := netip.MustParseAddr(seed).As16()
		f.Add(binary.BigEndian.Uint64(bytes[:8]), binary.BigEndian.Uint64(bytes[8:]), uint16(4711))
	}
	const peer = "10.0.0.5"
	model := keyfuncs.IP(keyfuncs.Forwarded(peer))
	f.Fuzz(func(t *testing.T, high, low uint64, port uint16) {
		client := address(high, low)
		if client.Unmap().IsUnspecified() || client.Unmap() == netip.MustParseAddr(peer) {
			return // nobody, and the proxy itself
		}
		own := key(t, keyfuncs.RemoteIP, request(client.String()))
		r := request(peer + ":1")
		for _, text := range []string{client.String(), client.StringExpanded()} {
			r.Header["Forwarded"] = []string{"for=6.6.6.6, for=" + text}
			if got := key(t, model, r); got != own && got != "ip:"+peer {
				t.Errorf("%s has the key %q, want its own, %q, or that of the peer", text, got, own)
			}
			if strings.Count(text, ":") == 7 {
				expectKey(t, model, r, own)
			}
			r.Header["Forwarded"] = []string{fmt.Sprintf(`for=6.6.6.6, for="%s:%d"`, text, port)}
			expectKey(t, model, r, "ip:"+peer)
		}
	})
}

// A token has one key: that of the plainest way to write it.
func FuzzBearer(f *testing.F) {
	for _, credentials := range []string{
		"", "Bearer", "Bearer mF_9.B5f-4.1JqM==", " bearer\t\ttoken more", "Basic dXNlcjpwYXNz", "Bearer \x00", "Bearer\vtoken", "\u212Aearer x",
	} {
		f.Add(credentials)
	}
	by := keyfuncs.Bearer()
	f.Fuzz(func(t *testing.T, credentials string) {
		r := request("203.0.113.9:1")
		r.Header["Authorization"] = []string{credentials}
		got, err := by(r)
		words := strings.Fields(credentials)
		if len(words) < 2 || strings.ToLower(words[0]) != "bearer" {
			if !errors.Is(err, keyfuncs.ErrNoKey) {
				t.Errorf("%q: key %q, error %v, want ErrNoKey", credentials, got, err)
			}
			return
		}
		r.Header["Authorization"] = []string{"Bearer " + words[1]}
		expectKey(t, by, r, got)
	})
}

func FuzzPeer(f *testing.F) {
	for _, peer := range []string{"203.0.113.9:1", "[::ffff:1.2.3.4]:1", "[fe80::1%a]:1", "@", "", "[", "]", "[]", ":", "::"} {
		f.Add(peer)
	}
	f.Fuzz(func(t *testing.T, peer string) {
		if got := key(t, keyfuncs.RemoteIP, request(peer)); got != "ip:none" {
			expectCanonical(t, got)
		}
	})
}

// parted undoes Join.
func parted(joined string) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(joined); i++ {
		switch joined[i] {
		case '\\':
			i++
			part.WriteByte(joined[i])
		case '|':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(joined[i])
		}
	}
	return append(parts, part.String())
}

func FuzzJoin(f *testing.F) {
	for _, pair := range [][2]string{
		{"a\nb", "a|b"}, {"a", "b"}, {`a\` + "\nb", `a\|b`}, {"a|\nb", "a\n|b"}, {"\\", "|"}, {"a\nb\nc", "a\nb|c"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		// A namespace keeps the parts from being empty, which would be no key.
		list := func(lines string) []string {
			parts := strings.Split(lines, "\n")
			for i := range parts {
				parts[i] = "n:" + parts[i]
			}
			return parts
		}
		a, b := list(one), list(other)
		keyA, keyB := joined(t, a...), joined(t, b...)
		if slices.Equal(a, b) != (keyA == keyB) {
			t.Errorf("parts %q and %q have the keys %q and %q", a, b, keyA, keyB)
		}
		if got := parted(keyA); !slices.Equal(got, a) {
			t.Errorf("parts %q are read back as %q", a, got)
		}
		if nestedA, flatA := joined(t, keyA, "n:c"), joined(t, append(a, "n:c")...); len(a) > 1 && nestedA == flatA {
			t.Errorf("parts %q have the same key nested and flat, %q", a, flatA)
		}
	})
}
