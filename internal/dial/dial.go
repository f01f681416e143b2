// Package dial opens connections to Redis that read an answer which is there, however late their reader
// gets a processor. It knows when a server was last heard of: see [Sign].
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// defaultTimeout is that of go-redis.
	defaultTimeout = 5 * time.Second
	// lastLook is how long is waited for an answer when its deadline has passed, and it may be there.
	lastLook = time.Millisecond
)

// Func opens a connection, as the Dialer of a go-redis client does.
type Func = func(ctx context.Context, network, address string) (net.Conn, error)

// New returns a function that opens such connections, with TLS if config is not nil. A dial takes no longer than the
// timeout; 0 is that of go-redis, 5 seconds. It returns no error, for a client that would dial again and again by itself:
// instead, every use of a connection that could not be opened fails with the error.
func New(config *tls.Config, timeout time.Duration) Func {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	o := &opener{net.Dialer{Timeout: timeout, KeepAlive: 5 * time.Minute}, config}
	if config == nil {
		return o.openPlain
	}
	return o.openSecured
}

// Made reports whether [New] has made a function.
func Made(dialer Func) bool {
	return Plain(dialer) || strings.HasSuffix(nameOf(dialer), ownName+"openSecured-fm")
}

// Plain reports whether [New] has made a function, for connections without TLS.
func Plain(dialer Func) bool { return strings.HasSuffix(nameOf(dialer), ownName+"openPlain-fm") }

// ownName is how the names of our functions end, but for that of the method.
const ownName = "/internal/dial.(*opener)."

// Default reports whether a function is the one that a go-redis client has when it was given none.
func Default(dialer Func) bool {
	return dialer == nil || Client(dialer) && strings.Contains(nameOf(dialer), "NewDialer.")
}

// Client reports whether a function is go-redis' own.
func Client(dialer Func) bool { return strings.Contains(nameOf(dialer), "/go-redis/v9.") }

// nameOf returns the name of a function, which is all that tells one from another.
func nameOf(dialer Func) string {
	function := runtime.FuncForPC(reflect.ValueOf(dialer).Pointer())
	if dialer == nil || function == nil {
		return ""
	}
	return function.Name()
}

// opener opens connections.
type opener struct {
	dialer net.Dialer
	config *tls.Config // for TLS, or nil
}

// openPlain and openSecured are the results of New: Made and Plain know them by their names.
func (o *opener) openPlain(ctx context.Context, network, address string) (net.Conn, error) {
	return orUnopened(o.dial(ctx, network, address)), nil
}

func (o *opener) openSecured(ctx context.Context, network, address string) (net.Conn, error) {
	return orUnopened(o.secure(ctx, network, address)), nil
}

// orUnopened returns a connection, or one that fails with the error.
func orUnopened(conn net.Conn, err error) net.Conn {
	if err != nil {
		return unopened{refusal{err}}
	}
	return conn
}

func (o *opener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := o.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	server := SignOf(address)
	server.at.Store(int64(time.Since(epoch)))
	return looking(dialed, server), nil
}

func (o *opener) secure(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.dialer.Timeout) // to shake hands, too
	defer cancel()
	dialed, err := o.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(dialed, named(o.config, address))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = dialed.Close()
		return nil, err
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

// looking returns a connection that looks once more when a deadline has passed, and notes when its server was
// there. It is a [syscall.Conn] if conn is: go-redis looks there whether the peer has hung up.
func looking(conn net.Conn, server *Sign) net.Conn {
	own := &connection{Conn: conn, server: server}
	if raw, ok := conn.(syscall.Conn); ok {
		return socket{own, raw}
	}
	return own
}

type connection struct {
	net.Conn

	server *Sign
	read   atomic.Int64 // when something was read that nothing was written after, for the sign; 0: nothing was
}

type socket struct {
	*connection
	syscall.Conn
}

// Read reads the bytes that are there, also after the deadline.
func (c *connection) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = c.lookAgain(into, err)
	}
	if n > 0 {
		c.read.Store(int64(time.Since(epoch)))
	}
	return n, err
}

// Write notes that the reply before was whole: its reader has gone on.
func (c *connection) Write(from []byte) (int, error) {
	if at := c.read.Swap(0); at > 0 {
		c.server.at.Store(at)
	}
	return c.Conn.Write(from)
}

// lookAgain reads the bytes that have come although the deadline has passed, or returns the error that says so.
func (c *connection) lookAgain(into []byte, late error) (int, error) {
	if c.SetReadDeadline(time.Now().Add(lastLook)) == nil {
		if n, err := c.Conn.Read(into); n > 0 {
			return n, err
		}
	}
	return 0, late
}

// byAddress is the signs of the servers. They are kept for as long as the process lives.
var byAddress sync.Map

// epoch is an instant before all others, from which the monotonic clock is read.
var epoch = time.Now().Add(-1)

// Sign tells when a server was last known to be there. [SignOf] finds it.
type Sign struct{ at atomic.Int64 } // after the epoch; 0: never

// SignOf returns the sign of the server at an address. It is the same for all connections to the address.
func SignOf(address string) *Sign {
	known, ok := byAddress.Load(address)
	if !ok {
		known, _ = byAddress.LoadOrStore(address, new(Sign))
	}
	return known.(*Sign) //nolint:forcetypeassert // the map holds nothing else
}

// Heard returns when the server was last known to be there: when it accepted a connection of this package's, or
// when the last of a reply came that its reader has gone on from. A reply of which a part is missing does not count, since a
// server or a network may never send the rest. The zero time says that nothing is known.
func (s *Sign) Heard() time.Time {
	if at := s.at.Load(); at > 0 {
		return epoch.Add(time.Duration(at))
	}
	return time.Time{}
}
