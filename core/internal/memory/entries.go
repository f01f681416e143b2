package memory

import (
	"hash/maphash"
	"iter"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// entries finds entries by their keys. Its map has the hashes of the keys: a key itself has two pointers, which the garbage collector would
// follow for each entry, and its text lies elsewhere in memory.
type entries struct {
	seed   maphash.Seed
	byHash map[uint64]*entry
	others map[exact.Key]*entry // entries with a hash that another one has; nil: there has been none
}

func newEntries(seed maphash.Seed, room int) entries {
	return entries{seed: seed, byHash: make(map[uint64]*entry, room)}
}

func (t *entries) hash(key exact.Key) uint64 {
	hash, of := maphash.String(t.seed, key.Subject), key.Identity
	if of.StateName != "" {
		hash = 31*hash + maphash.String(t.seed, of.StateName)
	}
	if of.Name != "" {
		hash = 31*hash + maphash.String(t.seed, of.Name)
	}
	return hash
}

// len returns how many entries there are.
func (t *entries) len() int { return len(t.byHash) + len(t.others) }

// get returns the entry of a key, or nil.
func (t *entries) get(key exact.Key) *entry {
	if e := t.byHash[t.hash(key)]; e != nil && e.key() == key {
		return e
	}
	return t.others[key]
}

// add adds the entry of a key that has none.
func (t *entries) add(key exact.Key, e *entry) {
	if hash := t.hash(key); t.byHash[hash] == nil {
		t.byHash[hash] = e
		return
	}
	if t.others == nil {
		t.others = make(map[exact.Key]*entry)
	}
	t.others[key] = e
}

// remove removes an entry.
func (t *entries) remove(e *entry) {
	key := e.key()
	if hash := t.hash(key); t.byHash[hash] == e {
		delete(t.byHash, hash)
	} else {
		delete(t.others, key)
	}
}

// all returns all entries, in no order.
func (t *entries) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range t.byHash {
			if !yield(e) {
				return
			}
		}
		for _, e := range t.others {
			if !yield(e) {
				return
			}
		}
	}
}
