package headers

import (
	"fmt"
	"net/http"
)

// Join returns a Writer that writes the fields of all the writers, in their order. Where two
// write the same field, as [Draft] and [Draft7] do, the later one wins. Without writers
// it returns [None]. It copies the list, and panics if a writer is nil.
func Join(writers ...Writer) Writer {
	var all []Writer
	for i, w := range writers {
		if w == nil {
			panic(fmt.Sprintf("headers: Join: writer %d of %d is nil", i+1, len(writers)))
		}
		if j, ok := w.(*joined); ok {
			all = append(all, j.writers...)
		} else {
			all = append(all, w)
		}
	}
	switch len(all) {
	case 0:
		return None
	case 1:
		return all[0]
	}
	return &joined{all}
}

type joined struct{ writers []Writer } // none of which is joined

// JoinedWriters returns the writers to package internal/dialect, which must not change the
// slice.
func (j *joined) JoinedWriters() []Writer { return j.writers }

func (j *joined) Write(h http.Header, policies []Outcome) {
	for _, w := range j.writers {
		w.Write(h, policies)
	}
}
