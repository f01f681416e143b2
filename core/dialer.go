package core

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/weir-go/ratelimit/internal/dial"
)

// Dialer returns what opens the connections of a client that [NewRedis] is given, as Dialer of its
// options; config is for TLS, nil for none. [Open] uses it by itself.
//
// Its connections read an answer that is there, also when its deadline has passed by then. In a
// process that more goroutines want to run in than it has processors for, as when thousands of requests
// arrive at once, a goroutine may wait for longer than the budget to read what Redis has answered
// in a millisecond. Other connections give up then, and the checks count as not answered. With TLS it
// shakes hands within the caller's deadline, which go-redis' own does not.
//
// The trap: go-redis leaves TLS to a client's Dialer, and does not look at its TLSConfig then. So give
// Dialer that configuration. [NewRedis] panics where it can see that it was forgotten, before a password
// is sent in the clear; it cannot see into a client that asks sentinels.
//
// What it returns may be used by many goroutines at once. A dial takes five seconds at most.
func Dialer(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dial.New(config, 0)
}
