package guard

import (
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Layers returns two policies for one [Guard]: a limit by address, and one by what
// user.By reads from the request, such as a user name or an API key, which the client
// chooses. A request without such a key counts by its address there, too, as address.By
// reads it, which is [keyfuncs.RemoteIP] by default.
//
// A client may choose another key for each request. A limit by that alone limits nobody,
// and fills the store with keys. Both limits are checked in one call, and a request that
// the limit by address denies leaves nothing behind.
//
// Layers panics if user.By is nil, and if address.Shadow is set: that protects nothing.
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
