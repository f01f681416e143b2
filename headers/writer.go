package headers

import (
	"fmt"
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// Policy is what one policy decided about the request.
type Policy struct {
	// Name tells the policies of a response apart, such as "per-minute". It is
	// usually the limit's own name. It should be printable ASCII, and unique in
	// the response without regard to case.
	Name string
	// Unit is what the policy counts: "" is requests. The draft registers "content-bytes"
	// and "concurrent-requests"; any other printable ASCII will do, such as "tokens". Only
	// the newer drafts tell it: see [Draft11].
	Unit string
	// Decision is what was decided. Its Limit says how the policy is described.
	Decision core.Decision
	// Key says whose traffic it was. It may name a person or an address, so a
	// Writer must not let the client, or any cache on the way, see it: those of
	// this package use it for [DraftPartitioned] alone.
	Key string
}

// Validate returns an error if no field can carry the Name or the Unit, because it is not
// printable ASCII.
func (p *Policy) Validate() error {
	if !isString(p.Name) {
		return fmt.Errorf("headers: the name %q is not printable ASCII", p.Name)
	}
	if !isString(p.Unit) {
		return fmt.Errorf("headers: the unit %q is not printable ASCII", p.Unit)
	}
	return nil
}

// A Writer tells the client what was decided. It must be safe for concurrent
// use by several requests; those of this package are.
type Writer interface {
	// Write sets the header fields for all the policies that decided about a
	// request. When limiters are nested, it is called again with the longer list
	// before the response begins: each call replaces what the one before wrote.
	// Without policies, Write leaves h as it is. The slice is the caller's, so Write
	// must not keep it.
	Write(h http.Header, policies []Policy)
}

// Draft writes the fields of the newest published IETF draft, at present
// [Draft11].
var Draft = Draft11

// set gives the field one value, or removes the field if the value is empty. The
// name must be in canonical form.
func set(h http.Header, name string, value []byte) {
	if len(value) == 0 {
		delete(h, name)
		return
	}
	h[name] = []string{string(value)}
}
