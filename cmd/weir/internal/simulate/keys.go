package simulate

// keyTable counts the requests of keys, by their hashes. There may be millions of keys, in no order, so that each one that is asked for has to be
// fetched from memory. It lies in one piece here, and a map would take several, one after the other. There are no pointers, which the garbage
// collector would follow.
type keyTable struct {
	places []countedKey // a power of two of them; a key is in the place of its hash, or behind that
	n      int
}

// countedKey counts a key's requests. One without a request is a free place.
type countedKey struct{ hash, requests uint64 }

// at returns a key of which a request has been counted, or a free place for it. The place is valid until the table grows.
func (t *keyTable) at(hash uint64) *countedKey {
	for place := hash; ; place++ {
		k := &t.places[place&uint64(len(t.places)-1)]
		if k.requests == 0 || k.hash == hash {
			return k
		}
	}
}

// look looks at the place of a key, as find does, and changes nothing. A processor fetches the places of several keys from memory at the same time if
// it has nothing else to do for each. It returns a number for the caller to use, so that the compiler leaves nothing out.
func (t *keyTable) look(hash uint64) uint64 {
	if len(t.places) == 0 {
		return 0
	}
	return t.places[hash&uint64(len(t.places)-1)].requests
}

// find returns a key, and adds it if there are fewer than most. Otherwise it returns nil.
func (t *keyTable) find(hash uint64, most int) *countedKey {
	if 3*len(t.places) <= 4*t.n {
		t.grow()
	}
	k := t.at(hash)
	if k.requests == 0 {
		if t.n >= most {
			return nil
		}
		k.hash = hash
		t.n++
	}
	return k
}

// grow makes the table twice as large.
func (t *keyTable) grow() {
	before := t.places
	t.places = make([]countedKey, max(64, 2*len(before)))
	for i := range before {
		if before[i].requests > 0 {
			*t.at(before[i].hash) = before[i]
		}
	}
}
