package core

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/weir-go/ratelimit/internal/dial"
)

// Dialer returns a dial function for the Dialer option of your own client, which you give to [NewRedis].
// config is for TLS, nil for none. [Open] uses a Dialer by itself.
//
// Its connections still read an answer that has arrived when their deadline has passed. When thousands
// of requests arrive at once, more goroutines want to run than there are processors. One of them may
// wait longer than the budget until it reads an answer that Redis has sent within a millisecond. Other
// connections give up then, and the calls count as not answered. With TLS, Dialer shakes hands within
// the caller's deadline; go-redis' own dialer does not.
//
// A client with a Dialer ignores the TLSConfig of its options, so give that configuration to Dialer.
// [NewRedis] panics if it sees that this was forgotten, before a password is sent in the clear. It cannot
// see into a client that asks sentinels.
//
// The function may be used by many goroutines at once. A dial takes five seconds at most.
func Dialer(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dial.New(config, 0)
}
