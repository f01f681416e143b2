package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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
	if _, err := New(&tls.Config{MinVersion: tls.VersionTLS12}, 0)(ctx, "tcp", listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}
