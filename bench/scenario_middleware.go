package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// instant is a store that admits at once, so that what is left is the middleware.
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

// middleware shows what the HTTP side of a limiter costs by itself.
func (b *bench) middleware(ctx context.Context) ([]comparison, error) {
	b.report("the middleware alone")
	var contenders []contender
	for _, v := range []service{
		{framework: netHTTP, handler: func(*setup, quota) (http.Handler, error) { return plain(), nil }},
		{framework: netHTTP, limiter: guardName, own: true, handler: ownHTTP(onInstant)},
		{framework: ginFramework, handler: func(*setup, quota) (http.Handler, error) { return onGin(), nil }},
		{framework: ginFramework, limiter: guardName, own: true, handler: ownGin(onInstant)},
		{framework: echoFramework, handler: func(*setup, quota) (http.Handler, error) { return onEcho(), nil }},
		{framework: echoFramework, limiter: guardName, own: true, handler: ownEcho(onInstant)},
	} {
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
	entries, err := b.with(ctx, contenders, roomy, func(entries []*entry) error {
		return b.turns(1, []string{""}).take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:    "middleware",
		title:   "The middleware alone, 1 goroutine",
		text:    "A store that admits at once, a response that goes nowhere. What the limiter takes is the difference to no limiter.",
		entries: entries,
		columns: []column{
			figure("each", secondsEach, showTime),
			{"of it the limiter", less, func(e *entry, all []*entry) string { return showTime(beyondNone(e, all, secondsEach).median) }},
			figure("allocations", allocationsEach, showCount),
			{"of them the limiter's", less, func(e *entry, all []*entry) string { return showCount(beyondNone(e, all, allocationsEach).median) }},
		},
		plots: []plotted{{"middleware", "time of a request", secondsEach, netHTTP + ", no limiter"}},
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
