package core

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// defaultDialTimeout is that of go-redis.
	defaultDialTimeout = 5 * time.Second
	// lastLook is how long is waited for an answer when its deadline has passed, and it may be there.
	lastLook = time.Millisecond
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
// What it returns may be used by many goroutines at once. A dial takes five seconds at most.
func Dialer(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dialer(config, defaultDialTimeout)
}

// dialer is Dialer with a time-out; 0 is the default.
func dialer(config *tls.Config, timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	if timeout <= 0 {
		timeout = defaultDialTimeout
	}
	return (&opener{net.Dialer{Timeout: timeout, KeepAlive: 5 * time.Minute}, config}).open
}

// opener opens connections.
type opener struct {
	dialer net.Dialer
	config *tls.Config // for TLS, or nil
}

// open is what Dialer returns. Package topology knows it by the name of this method.
func (o *opener) open(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.dialer.Timeout)
	defer cancel()
	dialed, err := o.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // go-redis reads it
	}
	if o.config == nil {
		return looking(dialed), nil
	}
	secured := tls.Client(looking(dialed), named(o.config, address))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = dialed.Close()
		return nil, err //nolint:wrapcheck // go-redis reads it
	}
	return secured, nil
}

// named returns a configuration that has the name of the server.
func named(config *tls.Config, address string) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config = config.Clone()
	config.ServerName = host
	return config
}

// looking returns a connection that looks once more when a deadline has passed. It is a
// [syscall.Conn] if conn is: go-redis looks there whether the peer has hung up.
func looking(conn net.Conn) net.Conn {
	if raw, ok := conn.(syscall.Conn); ok {
		return socket{connection{conn}, raw}
	}
	return connection{conn}
}

type connection struct{ net.Conn }

type socket struct {
	connection
	syscall.Conn
}

// Read reads what is there, whatever the deadline says.
func (c connection) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.SetReadDeadline(time.Now().Add(lastLook)) != nil {
		return n, err //nolint:wrapcheck // it stands for the connection
	}
	if n, again := c.Conn.Read(into); n > 0 {
		return n, again //nolint:wrapcheck // the same
	}
	return 0, err //nolint:wrapcheck // the same
}
