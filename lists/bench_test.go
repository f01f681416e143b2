package lists_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weir-go/ratelimit/lists"
)

// BenchmarkContains looks addresses up among 10,000 random prefixes of IPv4 and IPv6: those
// that are in one, and those that are in none.
func BenchmarkContains(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(bits int, first byte) netip.Prefix {
		var bytes [16]byte
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		bytes[0] = first
		address := netip.AddrFrom16(bytes)
		if bits <= 32 {
			address = netip.AddrFrom4([4]byte(bytes[:4]))
		}
		return netip.PrefixFrom(address, bits).Masked()
	}
	var entries []string
	var hits, misses []netip.Addr
	for i := range 10_000 {
		bits := []int{16, 22, 24, 32, 32, 48, 64, 128}[i%8]
		p := draw(bits, byte(32+random.IntN(32)))
		entries, hits = append(entries, p.String()), append(hits, p.Addr())
	}
	live := new(lists.Live)
	live.Swap(lists.Of(entries...))
	for len(misses) < 10_000 { // near to the hits
		address := draw([]int{32, 128}[len(misses)%2], byte(32+random.IntN(32))).Addr()
		if !live.List().Has(address, "") {
			misses = append(misses, address)
		}
	}
	for name, addresses := range map[string][]netip.Addr{"hits": hits, "misses": misses} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if live.List().Has(addresses[i%len(addresses)], "") != (name == "hits") {
					b.Fatal(addresses[i%len(addresses)])
				}
			}
		})
	}
}

// BenchmarkOf makes a list of 10,000 entries, as each reading of a source does.
func BenchmarkOf(b *testing.B) {
	var entries []string
	for i := range 10_000 {
		entries = append(entries, netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}).String())
	}
	b.ReportAllocs()
	for b.Loop() {
		lists.Of(entries...)
	}
}
