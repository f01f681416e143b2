package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// answering listens, and sends "+OK" to whoever connects, and then nothing. It closes sent when the
// answer is on its way.
func answering(t *testing.T, config *tls.Config) (address string, sent chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	sent = make(chan struct{})
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		if config != nil {
			conn = tls.Server(conn, config)
		}
		_, _ = conn.Write([]byte("+OK"))
		close(sent)
	}()
	return listener.Addr().String(), sent
}

// An answer that is there is read, however late its reader gets a processor: with TLS and without.
func TestReadsWhatIsThere(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	trusting := certified.Client().Transport.(*http.Transport).TLSClientConfig
	for name, c := range map[string]struct{ server, client *tls.Config }{
		"plain": {},
		"TLS":   {certified.TLS, trusting},
	} {
		t.Run(name, func(t *testing.T) {
			address, sent := answering(t, c.server)
			conn, err := New(c.client, 0)(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			<-sent
			read := make([]byte, 10)
			for deadline := time.Now().Add(10 * time.Second); ; { // it is on its way
				if err := conn.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
					t.Fatal(err)
				}
				n, err := conn.Read(read)
				if err == nil {
					if got := string(read[:n]); got != "+OK" {
						t.Errorf("read %q", got)
					}
					break
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			if err := conn.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Read(read); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d bytes where there are none: %v", n, err)
			}
		})
	}
}

// go-redis sees through our connections whether the server has hung up, as through its own.
func TestShowsTheSocket(t *testing.T) {
	address, _ := answering(t, nil)
	conn, err := New(nil, 0)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := conn.(syscall.Conn); !ok {
		t.Errorf("a %T is no syscall.Conn", conn)
	}
}

// A server that accepts and says nothing holds nobody who shakes hands for longer than they have time.
func TestHeedsTheDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	conn, err := New(&tls.Config{MinVersion: tls.VersionTLS12}, 0)(ctx, "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("PING")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// A connection that could not be opened says why, whatever is done with it, and no pool takes it for one that is alive. A dial
// returns it in place of an error: go-redis dials five times on an error.
func TestConnectionsThatCouldNotBeOpened(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {MinVersion: tls.VersionTLS12}} {
		conn, err := New(config, 0)(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, written := conn.Write(nil)
		_, read := conn.Read(make([]byte, 1))
		_, raw := conn.(syscall.Conn).SyscallConn()
		for _, err := range []error{written, read, raw, errors.Unwrap(written)} {
			if known, ok := errors.AsType[net.Error](err); !ok || known.Timeout() || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v, want that it was refused", name, err)
			}
		}
		for _, err := range []error{conn.SetDeadline(time.Now()), conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(time.Now()), conn.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		if conn.LocalAddr().String() != conn.RemoteAddr().String() || conn.RemoteAddr().Network() != "tcp" {
			t.Errorf("it is between %v and %v", conn.LocalAddr(), conn.RemoteAddr())
		}
		if !SignOf(address).Heard().IsZero() && !SignOf(address).Heard().Before(time.Now()) {
			t.Errorf("a server that refuses was heard of at %v", SignOf(address).Heard())
		}
	}
}

// A server was heard of when it accepts a connection, and when the last of a reply has come. A reply that goes on and on is no
// sign.
func TestKnowsWhenAServerWasHeardOf(t *testing.T) {
	address, sent := answering(t, nil)
	before := time.Now()
	conn, err := New(nil, 0)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted := SignOf(address).Heard()
	if accepted.Before(before) || accepted.After(time.Now()) || !SignOf("of nobody").Heard().IsZero() {
		t.Errorf("heard of at %v, and of nobody at %v", accepted, SignOf("of nobody").Heard())
	}
	<-sent
	for read := make([]byte, 1); ; {
		n, err := conn.Read(read)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && read[0] == 'K' {
			break
		}
		if !SignOf(address).Heard().Equal(accepted) {
			t.Error("a part of a reply is a sign")
		}
	}
	last := time.Now()
	for !time.Now().After(last) { // the clock has steps
		runtime.Gosched()
	}
	if _, err := conn.Write([]byte("PING")); err != nil {
		t.Fatal(err)
	}
	if heard := SignOf(address).Heard(); !heard.After(accepted) || heard.After(last) {
		t.Errorf("heard of at %v, want when the reply had come, between %v and %v", heard, accepted, last)
	}
}
