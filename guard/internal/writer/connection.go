package writer

import (
	"crypto/tls"
	"net"
	"sync"
)

// OnClose returns a connection that calls closed once, when it has been closed. It has all methods of a TCP, a Unix or
// a TLS connection. Of others it has those of [net.Conn], and NetConn, as a TLS connection has it.
func OnClose(connection net.Conn, closed func()) net.Conn {
	closed = sync.OnceFunc(closed)
	switch own := connection.(type) {
	case *net.TCPConn:
		return &tcpConn{own, closed}
	case *net.UnixConn:
		return &unixConn{own, closed}
	case *tls.Conn:
		return &tlsConn{own, closed}
	}
	return &otherConn{connection, closed}
}

type tcpConn struct {
	*net.TCPConn

	closed func()
}

// Close implements net.Conn.
func (c *tcpConn) Close() error {
	defer c.closed()
	return c.TCPConn.Close()
}

type unixConn struct {
	*net.UnixConn

	closed func()
}

// Close implements net.Conn.
func (c *unixConn) Close() error {
	defer c.closed()
	return c.UnixConn.Close()
}

type tlsConn struct {
	*tls.Conn

	closed func()
}

// Close implements net.Conn.
func (c *tlsConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

type otherConn struct {
	net.Conn

	closed func()
}

// Close implements net.Conn.
func (c *otherConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// NetConn returns the connection itself.
func (c *otherConn) NetConn() net.Conn { return c.Conn }
