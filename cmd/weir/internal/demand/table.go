package demand

import "iter"

// chunk is how many keys are allocated at a time.
const chunk = 256

// table holds keys. It grows without moving any.
type table struct {
	chunks []*[chunk]Key
	n      int
}

// at returns a key by its number.
func (t *table) at(i int) *Key { return &t.chunks[i/chunk][i%chunk] }

// more returns space for one more key.
func (t *table) more() *Key {
	if t.n == len(t.chunks)*chunk {
		t.chunks = append(t.chunks, new([chunk]Key))
	}
	t.n++
	return t.at(t.n - 1)
}

// all returns the keys there are. A key may be moved to the place of an earlier one meanwhile.
func (t *table) all() iter.Seq[*Key] {
	return func(yield func(*Key) bool) {
		for i := range t.n {
			if !yield(t.at(i)) {
				return
			}
		}
	}
}
