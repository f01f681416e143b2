package dial

import (
	"sync"
	"sync/atomic"
	"time"
)

// Heard returns when the server at an address was last known to be there: when it accepted a connection of this package's, or
// when the last of a reply came that its reader has gone on from. A reply of which a part is missing does not count, since a
// server or a network may never send the rest. The zero time says that nothing is known.
func Heard(address string) time.Time {
	if known, ok := byAddress.Load(address); ok {
		return known.(*sign).time() //nolint:forcetypeassert // the map holds nothing else
	}
	return time.Time{}
}

// byAddress is the signs of the servers. They are kept for as long as the process lives.
var byAddress sync.Map

// epoch is an instant from which the monotonic clock is read.
var epoch = time.Now()

// sign is when a server was last known to be there, after the epoch; 0: never.
type sign struct{ at atomic.Int64 }

// signOf returns the sign of the server at an address.
func signOf(address string) *sign {
	known, ok := byAddress.Load(address)
	if !ok {
		known, _ = byAddress.LoadOrStore(address, new(sign))
	}
	return known.(*sign) //nolint:forcetypeassert // the map holds nothing else
}

// now returns this instant for a sign.
func now() int64 { return max(1, int64(time.Since(epoch))) }

// note notes that the server was there at an instant.
func (s *sign) note(at int64) { s.at.Store(at) }

func (s *sign) time() time.Time {
	at := s.at.Load()
	if at == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(at))
}
