package memory

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Entries are found as in a map of their keys, also those with a hash that another key has.
func TestEntriesAreAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	specs := make([]*exact.Spec, 3)
	for i := range specs {
		specs[i] = exact.NewSpec(exact.Params{Algorithm: exact.FixedWindow, Capacity: i + 1, Events: i + 1, Period: time.Hour}, nil)
	}
	made := func(key exact.Key) *entry {
		e := &entry{subject: key.Subject}
		key.Identity.Store(&e.state, exact.Usage{}, 1, 1, exact.Holder{})
		return e
	}
	found, want := newEntries(maphash.MakeSeed(), 0), make(map[exact.Key]*entry)
	for i := range 10 { // the hashes of all keys of these subjects are taken
		for _, spec := range specs {
			stranger := exact.Key{Subject: "stranger " + strconv.Itoa(i), Identity: spec}
			want[stranger] = made(stranger)
			found.byHash[found.hash(exact.Key{Subject: strconv.Itoa(i), Identity: spec})] = want[stranger]
		}
	}
	for range 10_000 {
		key := exact.Key{Subject: strconv.Itoa(random.IntN(30)), Identity: specs[random.IntN(len(specs))]}
		e := found.get(key)
		if e != want[key] {
			t.Fatalf("%v has the entry %p, want %p", key, e, want[key])
		}
		if e != nil {
			found.remove(e)
			delete(want, key)
		} else {
			want[key] = made(key)
			found.add(key, want[key])
		}
		if found.len() != len(want) {
			t.Fatalf("%d entries, want %d", found.len(), len(want))
		}
	}
	all := make(map[exact.Key]*entry)
	for e := range found.all() {
		all[e.key()] = e
	}
	if len(found.others) == 0 || !maps.Equal(all, want) {
		t.Errorf("%d entries of %d, of which %d have a hash that another one has", len(all), len(want), len(found.others))
	}
}
