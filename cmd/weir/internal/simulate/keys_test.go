package simulate

import (
	"math/rand/v2"
	"testing"
)

// A table counts what a map counts, also of keys that want the same place.
func TestKeyTableIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, hash := range []func() uint64{
		func() uint64 { return random.Uint64N(300) << 40 }, func() uint64 { return random.Uint64N(3000) }, func() uint64 { return ^random.Uint64N(200) },
	} {
		const most = 1000
		var table keyTable
		want := make(map[uint64]uint64)
		for range 10_000 {
			key := hash()
			k := table.find(key, most)
			if _, known := want[key]; !known && len(want) == most {
				if k != nil {
					t.Fatal("a key is counted that is too many")
				}
				continue
			}
			want[key]++
			k.requests++
		}
		if table.n != len(want) {
			t.Fatalf("%d keys, want %d", table.n, len(want))
		}
		for key, requests := range want {
			if k := table.at(key); k.hash != key || k.requests != requests {
				t.Fatalf("%+v, want %d requests of %d", *k, requests, key)
			}
		}
	}
}
