package dial

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// unopened is a connection that could not be opened: every use of it fails, for the same reason. So a client fails at
// once. It would answer an error by dialing four times more, a tenth of a second apart, by holding a place of its pool
// for as long, and after some errors by dialing no more than once a second.
type unopened struct{ reason error }

// refusal is why a connection could not be opened. A client that takes an error out of the one around it keeps this one.
type refusal struct{ error }

// Unwrap returns the error of the dial.
func (r refusal) Unwrap() error { return r.error }

// Timeout implements [net.Error].
func (r refusal) Timeout() bool {
	known, ok := errors.AsType[net.Error](r.error)
	return ok && known.Timeout()
}

// Temporary implements [net.Error].
func (r refusal) Temporary() bool { return false }

func (u unopened) Read([]byte) (int, error)         { return 0, u.reason }
func (u unopened) Write([]byte) (int, error)        { return 0, u.reason }
func (u unopened) SetDeadline(time.Time) error      { return nil }
func (u unopened) SetReadDeadline(time.Time) error  { return nil }
func (u unopened) SetWriteDeadline(time.Time) error { return nil }
func (u unopened) Close() error                     { return nil }
func (u unopened) LocalAddr() net.Addr              { return nowhere{} }
func (u unopened) RemoteAddr() net.Addr             { return nowhere{} }

// SyscallConn returns the reason, so that a pool which looks whether a connection is alive finds that it is not.
func (u unopened) SyscallConn() (syscall.RawConn, error) { return nil, u.reason }

// nowhere is the address of either end of a connection that could not be opened.
type nowhere struct{}

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return "unopened" }
