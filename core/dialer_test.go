package core

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/topology"
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
func TestDialerReadsWhatIsThere(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	trusting := certified.Client().Transport.(*http.Transport).TLSClientConfig
	for name, c := range map[string]struct{ server, client *tls.Config }{
		"plain": {},
		"TLS":   {certified.TLS, trusting},
	} {
		t.Run(name, func(t *testing.T) {
			address, sent := answering(t, c.server)
			conn, err := Dialer(c.client)(t.Context(), "tcp", address)
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
func TestDialerShowsTheSocket(t *testing.T) {
	address, _ := answering(t, nil)
	conn, err := Dialer(nil)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := conn.(syscall.Conn); !ok {
		t.Errorf("a %T is no syscall.Conn", conn)
	}
}

// A server that accepts and says nothing holds nobody who shakes hands for longer than they have time.
func TestDialerHeedsTheDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dialer(&tls.Config{MinVersion: tls.VersionTLS12})(ctx, "tcp", listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// A client with our dialer is known to heed deadlines, and one with a user's is not.
func TestDialersAreTold(t *testing.T) {
	own := func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
	for name, c := range map[string]struct {
		dialer          func(ctx context.Context, network, address string) (net.Conn, error)
		heeds, noDialer bool
	}{
		"none":         {nil, true, true},
		"ours":         {Dialer(nil), true, false},
		"ours of Open": {dialer(nil, time.Second), true, false},
		"the user's":   {own, false, false},
	} {
		client := redis.NewClient(&redis.Options{Addr: "localhost:1", ContextTimeoutEnabled: true, Dialer: c.dialer})
		settings, _ := topology.Of(client).Settings()
		if heeds := topology.Of(client).HeedsDeadline(); heeds != c.heeds || settings.NoDialer != c.noDialer {
			t.Errorf("%s: heeds deadlines %t, no dialer %t", name, heeds, settings.NoDialer)
		}
		_ = client.Close()
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}, ContextTimeoutEnabled: true, Dialer: c.dialer})
		settings, _ = topology.Of(cluster).Settings()
		if heeds := topology.Of(cluster).HeedsDeadline(); heeds != c.heeds || settings.NoDialer != c.noDialer {
			t.Errorf("%s, of a cluster: heeds deadlines %t, no dialer %t", name, heeds, settings.NoDialer)
		}
		_ = cluster.Close()
	}
	for _, given := range []string{"redis://localhost:1", "redis://localhost:1?addr=localhost:2"} {
		u, err := url.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		client, err := dial(given, u.Query())
		if err != nil {
			t.Fatal(err)
		}
		if settings, _ := topology.Of(client).Settings(); settings.NoDialer {
			t.Errorf("%s: connections are go-redis' own", given)
		}
		_ = client.Close()
	}
	if strings.Contains(runtime.FuncForPC(reflect.ValueOf(Dialer(nil)).Pointer()).Name(), "go-redis") {
		t.Error("our dialer passes for go-redis' own")
	}
}
