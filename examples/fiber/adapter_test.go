package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/weir-go/ratelimit/guard/guardtest"
)

// The adapter keeps what every adapter of guard keeps, as far as Fiber can.
func TestAdapter(t *testing.T) {
	guardtest.Run(t, guardtest.Adapter[fiber.Handler]{
		FromGuard: limit,
		Serve:     serve,
		Without: guardtest.NetHTTP | guardtest.HTTP2 | guardtest.Hijacking | guardtest.Streaming | guardtest.StreamedBodies |
			guardtest.RouteAround | guardtest.AnyMethod | guardtest.AnyCase,
		CatchAll: "/files/{...}", // Fiber's wildcards have no name
	})
}

// serve builds a site with Fiber.
func serve(site guardtest.Site[fiber.Handler]) http.Handler {
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.SetContext(c.RequestCtx().UserValue(contextOf{}).(context.Context))
		if site.Before != nil {
			w := &response{c: c, header: headerOf(c)}
			site.Before(w)
			w.send()
		}
		return c.Next()
	})
	for _, limiter := range site.Around {
		app.Use(limiter)
	}
	for _, path := range []string{"/", "/items/:id", "/files/*"} {
		var chain []any
		for _, limiter := range site.Inside {
			chain = append(chain, limiter)
		}
		chain = append(chain, func(c fiber.Ctx) error {
			r, err := requestOf(c.Context(), c)
			if err != nil {
				return err
			}
			w := &response{c: c, header: headerOf(c)}
			defer func() {
				if r.MultipartForm != nil {
					_ = r.MultipartForm.RemoveAll() // as a server of net/http does
				}
			}()
			site.Handler(w, r)
			w.send()
			return nil
		})
		app.Add([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, path, chain[0], chain[1:]...)
	}
	return handlerOf(app)
}

// contextOf is the key of the context of a request.
type contextOf struct{}

// handlerOf returns a handler of net/http that has an app answer.
func handlerOf(app *fiber.App) http.Handler {
	answer := app.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in fasthttp.Request
		in.Header.SetMethod(r.Method)
		in.SetRequestURI(r.URL.RequestURI())
		in.Header.SetHost(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				in.Header.Add(name, value)
			}
		}
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			in.SetBody(body)
		}
		var c fasthttp.RequestCtx
		address, _ := net.ResolveTCPAddr("tcp", r.RemoteAddr)
		c.Init(&in, address, nil)
		c.Response.Header.SetNoDefaultContentType(true) // as with fiber.Config.DisableDefaultContentType
		c.SetUserValue(contextOf{}, r.Context())
		answer(&c)
		for name, value := range c.Response.Header.All() {
			w.Header().Add(string(name), string(value))
		}
		w.WriteHeader(c.Response.StatusCode())
		_, _ = w.Write(c.Response.Body())
	})
}
