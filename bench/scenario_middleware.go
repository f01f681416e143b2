package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/httprate"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// instant is a store that admits at once, so that only the middleware takes time.
type instant struct{ core.Store }

func (instant) Decide(_ context.Context, calls []core.Call) (answered int, err error) {
	for i, check := range calls[0].Checks {
		calls[0].Decisions[i] = core.Decision{
			Allowed: true, Limit: check.Limit, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second,
		}
	}
	return 1, nil
}

func (instant) Close() error { return nil }

func onInstant(*setup) core.Store { return instant{} }

// middleware shows the cost of the HTTP side of a limiter by itself.
func (b *bench) middleware(ctx context.Context) ([]comparison, error) {
	b.report("the middleware alone")
	contenders := handlers([]service{
		{framework: netHTTP, handler: func(*setup, quota) (http.Handler, error) { return plain(), nil }},
		{framework: netHTTP, limiter: guardName, own: true, handler: ownHTTP(onInstant)},
		{framework: ginFramework, handler: func(*setup, quota) (http.Handler, error) { return onGin(), nil }},
		{framework: ginFramework, limiter: guardName, own: true, handler: ownGin(onInstant)},
		{framework: echoFramework, handler: func(*setup, quota) (http.Handler, error) { return onEcho(), nil }},
		{framework: echoFramework, limiter: guardName, own: true, handler: ownEcho(onInstant)},
	})
	entries, err := b.with(ctx, contenders, roomy, func(entries []*entry) error {
		return b.turns(1, []string{""}).take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:    "middleware",
		title:   "The middleware alone, 1 goroutine",
		text:    "A store that admits at once, a response that goes nowhere. What the limiter takes is the difference to no limiter.",
		entries: entries,
		columns: middlewareColumns(),
		plots:   []plotted{{"middleware", "time of a request", secondsEach, netHTTP + ", no limiter"}},
	}}, err
}

// handlers are services that are asked without a connection: one request, and its response is discarded.
func handlers(services []service) []contender {
	contenders := make([]contender, 0, len(services))
	for _, v := range services {
		contenders = append(contenders, contender{
			name: v.name(), framework: v.framework, own: v.own,
			open: func(s *setup, q quota) (Ask, error) {
				handler, err := v.handler(s, q)
				response, request := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", nil)
				return func(context.Context, string) (bool, error) {
					handler.ServeHTTP(response, request)
					return true, nil
				}, err
			},
		})
	}
	return contenders
}

func middlewareColumns() []column {
	return []column{
		figure("each", secondsEach, showTime),
		{"of it the limiter", less, func(e *entry, all []*entry) string {
			return showMedian(secondsEach, beyondNone(e, all, secondsEach), showTime)
		}},
		figure("allocations", allocationsEach, showCount),
		{"of them the limiter's", less, func(e *entry, all []*entry) string {
			return showMedian(allocationsEach, beyondNone(e, all, allocationsEach), showCount)
		}},
	}
}

// The limiters in memory that are compared with their middleware.
const (
	ownLegacy     = memoryName + ", X-RateLimit headers"
	othersLegacy  = httprateAlone + ", X-RateLimit headers"
	ownSilent     = memoryName + ", no headers"
	othersSilent  = httprateAlone + ", no headers"
	othersLegacyN = netHTTP + ", " + othersLegacy
	othersSilentN = netHTTP + ", " + othersSilent
)

// middlewareInMemory compares the middleware with httprate's: both decide in memory and write the same header fields, or none.
func (b *bench) middlewareInMemory(ctx context.Context) ([]comparison, error) {
	b.report("the middleware in memory")
	with := func(w headers.Writer) func(*setup, quota) (http.Handler, error) {
		return func(s *setup, q quota) (http.Handler, error) {
			limit := core.Leaky(q.n, core.Per(q.n, q.per))
			return ratelimit.New(ownLimiter(s, onMemory), ratelimit.Options{Headers: w}, ratelimit.Policy{Limit: limit})(plain()), nil
		}
	}
	entries, err := b.with(ctx, handlers([]service{
		{framework: netHTTP, handler: func(*setup, quota) (http.Handler, error) { return plain(), nil }},
		{framework: netHTTP, limiter: ownLegacy, own: true, handler: with(headers.LegacyEpoch)},
		{framework: netHTTP, limiter: othersLegacy, handler: func(_ *setup, q quota) (http.Handler, error) {
			return httprate.LimitBy(q.n, q.per, remoteHost)(plain()), nil
		}},
		{framework: netHTTP, limiter: ownSilent, own: true, handler: with(headers.None)},
		{framework: netHTTP, limiter: othersSilent, handler: func(_ *setup, q quota) (http.Handler, error) {
			return httprate.LimitBy(q.n, q.per, remoteHost, withoutHeaders())(plain()), nil
		}},
	}), roomiest, func(entries []*entry) error { return b.turns(1, []string{""}).take(ctx, b.meter, entries) })
	return []comparison{{
		slug:  "middleware-in-memory",
		title: "The middleware in memory, 1 goroutine",
		text: "Middleware beside middleware, with the same header fields on both sides: `X-RateLimit-Limit`, `-Remaining` and `-Reset`, or none. " +
			"Both limit by the address of the peer, and the response goes nowhere.",
		entries: entries,
		columns: append(middlewareColumns(), against(othersLegacyN, secondsEach), against(othersSilentN, secondsEach)),
		plots:   []plotted{{"middleware-in-memory", "time of a request", secondsEach, netHTTP + ", no limiter"}},
	}}, err
}

// guardName is the limiter of the services that answer from the instant store.
const guardName = "ratelimit, no store"

// beyondNone is a figure less that of the same framework without a limiter.
func beyondNone(e *entry, all []*entry, of metric) spread {
	none := samplesOf(all, e.framework+", no limiter")
	differences := make([]float64, len(e.samples))
	for i := range e.samples {
		differences[i] = of.value(e.samples[i]) - of.value(none[i])
	}
	return spreadOf(differences)
}
