package guard

import (
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Layers returns the policies of [Layered], for [New]: where there are more of
// them, and for the adapters of other frameworks. It panics if user.By is nil, and
// if address.Shadow is set.
func Layers(address, user Policy) []Policy {
	if user.By == nil {
		panic("ratelimit: Layers: the inner policy has no By, so it would be by address, too")
	}
	if address.Shadow {
		panic("ratelimit: Layers: the limit by address is a shadow, which protects nothing")
	}
	by := address.By
	if by == nil {
		by = keyfuncs.RemoteIP
	}
	user.By = keyfuncs.FirstOf(user.By, by)
	return []Policy{address, user}
}
