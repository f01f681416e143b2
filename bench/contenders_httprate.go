package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
)

func httprateRedis() contender {
	return contender{
		name:      "httprate-redis",
		algorithm: "sliding window of two counters",
		note: "Not atomic: reads, then writes, so that several servers admit more than the limit; a lock held across both calls " +
			"makes one process ask one after the other; the clock is each server's.",
		open: func(s *setup, q quota) (Ask, error) {
			return httprateAsk(q, httprateCounter(s, q)), nil
		},
	}
}

// httprateCounter keeps httprate's counts in Redis. Without its fallback an error
// is one, rather than a local count that looks like an answer.
func httprateCounter(s *setup, q quota) httprate.Option {
	return httprateredis.WithRedisLimitCounter(&httprateredis.Config{
		Client: s.client(), WindowLength: q.per, FallbackDisabled: true,
	})
}

// The names of httprate in memory: as its middleware comes, and without header fields, which is the limiter alone.
const (
	httprateName  = "httprate, with headers"
	httprateAlone = "httprate"
)

// withoutHeaders has httprate write no header fields.
func withoutHeaders() httprate.Option {
	return httprate.WithResponseHeaders(httprate.ResponseHeaders{})
}

func httprateMemory() contender {
	return contender{
		name:      httprateAlone,
		algorithm: "sliding window of two counters",
		note: "One lock for all keys; keys are told apart by a 64-bit hash; no bound on their number. It is asked without header fields, as the other " +
			"limiters are.",
		open: func(_ *setup, q quota) (Ask, error) { return httprateAsk(q, withoutHeaders()), nil },
	}
}

func httprateMemoryWithHeaders() contender {
	return contender{
		name:      httprateName,
		algorithm: "sliding window of two counters",
		note:      "The same with the header fields that it writes unless it is told otherwise.",
		open:      func(_ *setup, q quota) (Ask, error) { return httprateAsk(q), nil },
	}
}

// httprateAsk asks through OnLimit, which is the middleware without the handler,
// and the only entry that counts. It wants a request, and a response to write
// headers to; both are reused.
func httprateAsk(q quota, options ...httprate.Option) Ask {
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	options = append(options, httprate.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) {
		w.(*discard).failure = err //nolint:forcetypeassert // it is the one given below
	}))
	limiter := httprate.NewRateLimiter(q.n, q.per, options...)
	responses := sync.Pool{New: func() any { return &discard{header: http.Header{}} }}
	return func(_ context.Context, key string) (bool, error) {
		response := responses.Get().(*discard) //nolint:forcetypeassert // nothing else is in there
		defer responses.Put(response)
		response.failure = nil
		limited := limiter.OnLimit(response, request, key)
		return !limited, response.failure
	}
}

// discard is a response writer that keeps nothing but the status.
type discard struct {
	header  http.Header
	status  int
	failure error
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
