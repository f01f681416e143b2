package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/ratelimit/guard"
)

// limit returns a handler of Fiber's that lets a request go on to the handlers behind it if the policies of a Guard allow it. It is the whole
// adapter: copy the file.
//
// Fiber uses the memory of a request again for the next one, so everything that a policy may keep of it is copied. Fiber does not tell when
// a client has left: a request waits for its turn, or for a place, all the same.
func limit(g *guard.Guard) fiber.Handler {
	if g == nil {
		panic("ratelimit: limit: the Guard is nil")
	}
	return func(c fiber.Ctx) error {
		outside := c.Context()
		ctx, end := context.WithCancel(outside)
		defer end() // Fiber's requests do not end by themselves
		r, err := requestOf(ctx, c)
		if err != nil {
			return fiber.NewError(fiber.StatusBadRequest, err.Error())
		}
		verdict := g.Decide(r, matchedBy(c))
		w := &response{c: c, header: headerOf(c)}
		verdict.WriteHeader(w.header)
		w.send()
		if verdict.Denial != nil {
			verdict.Denial.ServeHTTP(w, verdict.Request)
			return nil
		}
		defer c.SetContext(outside)
		verdict.Serve(served{w.header}, func(noticed http.ResponseWriter, r *http.Request) (unanswered int) {
			c.SetContext(r.Context())
			if err = c.Next(); err != nil { // which Fiber answers when all handlers have returned
				if known, ok := errors.AsType[*fiber.Error](err); ok {
					return known.Code
				}
				return fiber.StatusInternalServerError
			}
			noticed.WriteHeader(c.Response().StatusCode()) // for settlements by status
			_, _ = noticed.Write(c.Response().Body())
			return 0
		})
		return err
	}
}

// requestOf returns a request of Fiber's as one of net/http.
func requestOf(ctx context.Context, c fiber.Ctx) (*http.Request, error) {
	fast := c.RequestCtx()
	uri := string(fast.RequestURI())
	address, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, err
	}
	header := make(http.Header)
	for name, value := range fast.Request.Header.All() {
		if string(name) != fiber.HeaderHost {
			header.Add(string(name), string(value)) // all lines of a field, such as X-Forwarded-For, in their order
		}
	}
	body := bytes.Clone(fast.PostBody())
	r := &http.Request{
		Method: strings.Clone(c.Method()), URL: address, RequestURI: uri, Host: string(fast.Host()), RemoteAddr: fast.RemoteAddr().String(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, TLS: fast.TLSConnectionState(),
		Body: http.NoBody, ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.WithContext(ctx), nil
}

// matched is the route that Fiber's router has found. It implements keyfuncs.Matched.
type matched struct {
	route  string
	values map[string]string
}

// matchedBy returns the route that the router has found, with the values of the path decoded: /items/%37 is the same item as /items/7. In app.Use it
// knows the pattern of that Use alone, so limits by route go in front of a route's own handler.
func matchedBy(c fiber.Ctx) matched {
	m := matched{routeOf(c.Route().Path), make(map[string]string)}
	for _, name := range c.Route().Params {
		value := strings.Clone(c.Params(name))
		if decoded, err := url.PathUnescape(value); err == nil && !c.App().Config().UnescapePath {
			value = decoded
		}
		m.values[name] = value
	}
	return m
}

// routeOf returns a pattern of Fiber's in the notation that all routers share: "/items/:id" is "/items/{id}", and "/files/*" is "/files/{...}".
func routeOf(pattern string) string {
	return wildcards.ReplaceAllStringFunc(pattern, func(wildcard string) string {
		switch wildcard[0] {
		case '\\': // an escaped character
			return wildcard[1:]
		case ':':
			name, _, _ := strings.Cut(strings.TrimSuffix(wildcard[1:], "?"), "<")
			return "{" + name + "}"
		}
		return "{...}"
	})
}

// wildcards matches the parameters of a pattern, which may have constraints and be optional, and its escaped characters.
var wildcards = regexp.MustCompile(`\\.|:\w+(?:<[^>]*>)?\??|[*+]`)

func (m matched) Route() string                { return m.route }
func (m matched) PathValue(name string) string { return m.values[name] }

// headerOf returns a copy of the header of a response, as far as it is set.
func headerOf(c fiber.Ctx) http.Header {
	header := make(http.Header)
	for name, value := range c.Response().Header.All() {
		header.Add(string(name), string(value))
	}
	return header
}

// response writes a denial into a response of Fiber's. It implements http.ResponseWriter.
type response struct {
	c      fiber.Ctx
	header http.Header
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	w.send()
	w.c.Status(status)
}

func (w *response) Write(body []byte) (int, error) {
	w.c.Response().AppendBody(body)
	return len(body), nil
}

// send writes the fields of the header that have changed.
func (w *response) send() {
	before, own := headerOf(w.c), &w.c.Response().Header
	for name := range before {
		if _, kept := w.header[name]; !kept {
			own.Del(name)
		}
	}
	for name, values := range w.header {
		if !slices.Equal(before[name], values) {
			own.Del(name)
			for _, value := range values {
				own.Add(name, value)
			}
		}
	}
}

// served is told of the response of handlers, which Fiber itself sends.
type served struct{ header http.Header }

func (s served) Header() http.Header            { return s.header }
func (s served) WriteHeader(int)                {}
func (s served) Write(body []byte) (int, error) { return len(body), nil }
