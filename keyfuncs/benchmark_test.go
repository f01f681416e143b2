package keyfuncs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func benchmark(b *testing.B, f keyfuncs.Func, r *http.Request) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRemoteIP(b *testing.B) {
	b.Run("IPv4", func(b *testing.B) { benchmark(b, keyfuncs.RemoteIP, request("203.0.113.9:4711")) })
	b.Run("IPv6", func(b *testing.B) { benchmark(b, keyfuncs.RemoteIP, request("[2001:db8::1]:4711")) })
	b.Run("mapped", func(b *testing.B) { benchmark(b, keyfuncs.RemoteIP, request("[::ffff:203.0.113.9]:4711")) })
}

func BenchmarkIP(b *testing.B) {
	b.Run("TrustedProxies", func(b *testing.B) {
		benchmark(b, keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")),
			request("10.0.0.5:1", "X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.7"))
	})
	b.Run("TrustedProxies, a megabyte", func(b *testing.B) {
		benchmark(b, keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")),
			request("10.0.0.5:1", "X-Forwarded-For: "+strings.Repeat("x", 1<<20)+strings.Repeat(", 10.0.0.7", 31)))
	})
	b.Run("Forwarded", func(b *testing.B) {
		benchmark(b, keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8")),
			request("10.0.0.5:1", `Forwarded: for=6.6.6.6, for="203.0.113.9:80";proto=https, for=10.0.0.7`))
	})
	b.Run("Forwarded, a megabyte", func(b *testing.B) {
		benchmark(b, keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8")),
			request("10.0.0.5:1", "Forwarded: "+strings.Repeat(`\`, 1<<20)+strings.Repeat(", for=10.0.0.7", 31)))
	})
}

func BenchmarkJoin(b *testing.B) {
	r := request("203.0.113.9:4711")
	r.Pattern = "GET /items/{id}"
	b.Run("RemoteIP", func(b *testing.B) { benchmark(b, keyfuncs.Join(keyfuncs.RemoteIP), r) })
	b.Run("RemoteIP and Route", func(b *testing.B) { benchmark(b, keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route), r) })
	b.Run("nobody", func(b *testing.B) {
		benchmark(b, keyfuncs.Join(keyfuncs.User(func(*http.Request) string { return "" })), r)
	})
}

func BenchmarkHeader(b *testing.B) {
	r := request("203.0.113.9:4711", "X-Api-Key: 0123456789abcdef0123456789abcdef")
	b.Run("SHA-256", func(b *testing.B) { benchmark(b, keyfuncs.Header("X-API-Key"), r) })
	b.Run("HMAC-SHA-256", func(b *testing.B) { benchmark(b, keyfuncs.Header("X-API-Key", keyfuncs.Secret(serverKey)), r) })
}
