package headers

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Outcome is the decision of one policy about a request.
type Outcome struct {
	// Name tells the policies of a response apart, such as "per-minute". It is
	// usually the name of the limit. It should be printable ASCII, and unique in
	// the response without regard to case. See [Outcome.Validate].
	Name string
	// Unit is the name of the units that the policy counts. The default, "", is requests. The draft registers
	// "content-bytes" and "concurrent-requests"; any other printable ASCII is allowed, such as "tokens". Only [Draft]
	// and [DraftPartitioned] write it.
	Unit string
	// Decision is the answer to the check. Its Limit describes the policy.
	Decision core.Decision
	// Key is the key of the check, or "" if the Writer need not know it. It may name a
	// person or an address, so a Writer must not send it to the client. The writers of
	// this package use it for [DraftPartitioned] only.
	Key string
}

// Validate returns an error if the Name or the Unit is not printable ASCII, so that no field
// can carry it.
func (p *Outcome) Validate() error {
	if !isString(p.Name) {
		return fmt.Errorf("headers: the name %q is not printable ASCII", p.Name)
	}
	if !isString(p.Unit) {
		return fmt.Errorf("headers: the unit %q is not printable ASCII", p.Unit)
	}
	return nil
}

// A Writer tells the client the decision. It must be safe for concurrent use; the writers of this package are.
type Writer interface {
	// Write sets the header fields for all policies that have decided about a request,
	// in the canonical form of net/http. When limiters are nested, it is called once more
	// with a longer list before the response begins: each call replaces the fields of the
	// call before. Without policies, Write leaves h as it is. It must not keep the slice.
	Write(h http.Header, outcomes []Outcome)
}

// set gives the field one value, or removes the field if the value is empty. The name
// must be in canonical form.
func set(h http.Header, name string, value []byte) {
	if len(value) == 0 {
		delete(h, name)
		return
	}
	h[name] = []string{string(value)}
}

// None writes nothing. A denial still carries Retry-After, which no Writer writes.
var None Writer = none{}

type none struct{}

func (none) Write(http.Header, []Outcome) {}

// WriteLone is Write for one policy. Package internal/dialect calls it.
func (none) WriteLone(http.Header, *core.Decision, *[2]string) {}

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

// Names returns the names of the fields of a denial: the fields of w, and Retry-After. They are sorted and in the
// canonical form of net/http.
//
// Browsers hide these fields from scripts of another origin unless the server lists them in
// Access-Control-Expose-Headers, which is usually an option of the CORS middleware. Call
// Names once, at start-up. It panics if w is nil.
//
// Names has w write an example of a denial, so a Writer needs no method for this. Of [LLM] it returns the fields of all units.
func Names(w Writer) []string {
	if w == nil {
		panic("headers: Names: the writer is nil")
	}
	h := http.Header{"Retry-After": {"1"}}
	writeNames(h, w)
	return slices.Sorted(maps.Keys(h))
}

// writeNames writes all fields that a Writer may write.
func writeNames(h http.Header, w Writer) {
	switch w := w.(type) {
	case *joined:
		for _, one := range w.writers {
			writeNames(h, one)
		}
	case llm:
		for _, name := range llmNames {
			h[name] = nil
		}
	default:
		w.Write(h, []Outcome{{Name: "example", Decision: core.Decision{
			Limit:      core.FixedWindow(1, time.Second),
			RetryAfter: time.Second,
			NextAfter:  time.Second,
			ResetAfter: time.Second,
		}}})
	}
}
