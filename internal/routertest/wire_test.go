package routertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

// client sends requests whose targets no HTTP library would write.
type client interface {
	// send sends a request, and returns when it is answered. It reports false if the connection has ended.
	send(method, target string) (open bool)
	close()
}

// What holds of a request holds of one that comes over a connection: in HTTP/1.1, and in HTTP/2.
func TestNoHandlerRunsWithoutItsPolicyOverConnections(t *testing.T) {
	random := repeatable.Random(t)
	for i, s := range sites(t) {
		if i%5 != 0 && *paths <= 1000 {
			continue
		}
		server := &http.Server{Handler: http.HandlerFunc(s.serve), Protocols: new(http.Protocols)}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(listener)
		}()
		for name, dial := range map[string]func(*testing.T, net.Conn) client{"HTTP/1.1": dialHTTP1, "HTTP/2": dialHTTP2} {
			random := repeatable.Split(random)
			t.Run(s.name+" "+name, func(t *testing.T) {
				var c client
				served := 0
				for range *paths / 5 {
					if c == nil {
						conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
						if err != nil {
							t.Fatal(err)
						}
						c = dial(t, conn)
					}
					method, path := pick(random, methods[:4]), target(random, limited())
					if strings.HasPrefix(path, "http:") && name == "HTTP/2" {
						continue
					}
					if !c.send(method, path) {
						c.close()
						c = nil
					}
					route, met, ran := s.missed()
					if route != "" {
						t.Fatalf("%s %q runs %s and meets %v, not %s, its policy", method, path, route, met, s.policyOf(route))
					}
					if ran {
						served++
					}
				}
				if c != nil {
					c.close()
				}
				if served == 0 {
					t.Error("no request has run a handler")
				}
			})
		}
		_ = server.Close()
		<-ended
	}
}

type http1 struct {
	conn net.Conn
	from *bufio.Reader
}

func dialHTTP1(_ *testing.T, conn net.Conn) client { return &http1{conn, bufio.NewReader(conn)} }

func (c *http1) send(method, target string) bool {
	if _, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n", method, target); err != nil {
		return false
	}
	response, err := http.ReadResponse(c.from, &http.Request{Method: method})
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return err == nil && !response.Close
}

func (c *http1) close() { _ = c.conn.Close() }

type http2Client struct {
	conn   net.Conn
	framer *http2.Framer
	stream uint32
	header bytes.Buffer
	hpack  *hpack.Encoder
}

func dialHTTP2(t *testing.T, conn net.Conn) client {
	t.Helper()
	c := &http2Client{conn: conn, framer: http2.NewFramer(conn, conn), stream: 1}
	c.hpack = hpack.NewEncoder(&c.header)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *http2Client) send(method, target string) bool {
	c.header.Reset()
	for _, field := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "a.test"}, {":path", target}} {
		if err := c.hpack.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return false
		}
	}
	stream := c.stream
	c.stream += 2
	if c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.header.Bytes(), EndStream: true, EndHeaders: true}) != nil {
		return false
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return false
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = c.framer.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			return false
		case *http2.RSTStreamFrame:
			return true
		case *http2.HeadersFrame:
			if frame.StreamID == stream && frame.StreamEnded() {
				return true
			}
		case *http2.DataFrame:
			if frame.StreamID == stream && frame.StreamEnded() {
				return true
			}
		}
	}
}

func (c *http2Client) close() { _ = c.conn.Close() }
