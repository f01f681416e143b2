//go:build !race

// A site is sent one request after the other: make test runs it without the race detector, which takes five times as long.

package routertest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

// client sends requests whose targets no HTTP library would write.
type client interface {
	// add adds a request to those that are sent next.
	add(method, target, host string) error
	// send sends them.
	send() error
}

// protocol is a version of HTTP.
type protocol struct {
	name string
	dial func(net.Conn) (client, error)
	// absolute says whether a target may be in the absolute form.
	absolute bool
}

var protocols = []protocol{{"HTTP/1.1", dialHTTP1, true}, {"HTTP/2", dialHTTP2, false}}

// What holds of a request holds of one that comes over a connection: in HTTP/1.1, and in HTTP/2.
func TestNoHandlerRunsWithoutItsPolicyOverConnections(t *testing.T) {
	random := repeatable.Random(t)
	for _, k := range kinds() {
		for _, p := range protocols {
			random := repeatable.Split(random)
			t.Run(k.name+" "+p.name, func(t *testing.T) {
				t.Parallel()
				k.rounds(t, random, func(s *site, requests int) {
					s.over(t, p, requests, func() (method, target, host string) {
						method, target, host = s.request(random)
						if p.absolute {
							target = inForm(random, target, host)
						}
						return method, target, host
					})
				})
			})
		}
	}
}

// batch is how many requests are sent before the first of them is answered.
const batch = 100

// over sends requests to a site over a connection, and waits until all of them are served.
func (s *site) over(t *testing.T, p protocol, requests int, next func() (method, target, host string)) {
	t.Helper()
	served := make(chan struct{}, batch)
	listener := newPipes()
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r)
		served <- struct{}{}
	})}
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1 << 16} // some are served, and their responses are not written yet
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{}, 2)
	go func() {
		_ = server.Serve(listener)
		ended <- struct{}{}
	}()
	conn := listener.dial()
	defer func() {
		_ = conn.Close()
		_ = server.Close()
		<-ended
		<-ended
	}()
	c, err := p.dial(conn)
	lost := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(lost)
		ended <- struct{}{}
	}()
	if err != nil {
		t.Fatal(err)
	}
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for requests > 0 {
		late.Reset(time.Minute)
		sent := min(requests, batch)
		requests -= sent
		for added := 0; added < sent; {
			method, target, host := next()
			if !isServed(method, target) {
				continue
			}
			if err := c.add(method, target, host); err != nil {
				t.Fatal(err)
			}
			added++
		}
		if err := c.send(); err != nil {
			t.Fatal(err)
		}
		for range sent {
			select {
			case <-served:
			case <-lost:
				t.Fatal("the server has ended the connection")
			case <-late.C:
				t.Fatal("the server has not served all requests")
			}
		}
	}
}

// isServed reports whether a server gives a request to its handler. Others end the connection.
func isServed(method, target string) bool {
	if method == http.MethodConnect { // which in HTTP/2 has no path, and begins a tunnel in HTTP/1.1
		return false
	}
	_, err := url.ParseRequestURI(target)
	return err == nil
}

type http1 struct {
	conn net.Conn
	text bytes.Buffer
}

func dialHTTP1(conn net.Conn) (client, error) { return &http1{conn: conn}, nil }

func (c *http1) add(method, target, host string) error {
	_, err := fmt.Fprintf(&c.text, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, host)
	return err
}

func (c *http1) send() error {
	_, err := c.text.WriteTo(c.conn)
	return err
}

type http2Client struct {
	conn   net.Conn
	text   bytes.Buffer
	framer *http2.Framer
	stream uint32
	header bytes.Buffer
	hpack  *hpack.Encoder
}

func dialHTTP2(conn net.Conn) (client, error) {
	c := &http2Client{conn: conn, stream: 1}
	c.framer = http2.NewFramer(&c.text, conn)
	c.hpack = hpack.NewEncoder(&c.header)
	c.text.WriteString(http2.ClientPreface)
	if err := c.framer.WriteSettings(); err != nil {
		return nil, err
	}
	if err := c.framer.WriteWindowUpdate(0, 1<<30); err != nil { // for all responses
		return nil, err
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			return c, c.framer.WriteSettingsAck()
		}
	}
}

func (c *http2Client) add(method, target, host string) error {
	c.header.Reset()
	for _, field := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", host}, {":path", target}} {
		if err := c.hpack.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return err
		}
	}
	c.stream += 2
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.header.Bytes(), EndStream: true, EndHeaders: true})
}

func (c *http2Client) send() error {
	_, err := c.text.WriteTo(c.conn)
	return err
}
