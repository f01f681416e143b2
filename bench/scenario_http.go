package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// connections is how many clients a service is asked by, each on a connection of
// its own.
const connections = 64

func (b *bench) http(ctx context.Context) ([]comparison, error) {
	b.report("HTTP, %d connections", connections)
	for _, v := range services() {
		if err := b.verifyService(ctx, v); err != nil {
			return nil, err
		}
	}
	// The contenders are services here, opened as what the load is generated for.
	contenders := make([]contender, 0, len(services()))
	for _, v := range services() {
		contenders = append(contenders, contender{name: v.name(), framework: v.framework, own: v.own, open: b.serving(v)})
	}
	entries, err := b.with(ctx, contenders, roomiest, func(entries []*entry) error {
		return turns{rounds: b.Rounds, duration: b.profile.http, run: func(ctx context.Context, e *entry, _ int, d time.Duration) (tally, error) {
			return generate(ctx, httpPlan{Address: e.setup.serves, Connections: connections, Warmup: b.warmup, Duration: d})
		}}.take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:  "http",
		title: fmt.Sprintf("Requests a second behind net/http, gin and echo, %d connections", connections),
		text: "A process of its own asks for a page that says \"ok\", on connections that stay open, each from an address of its own; " +
			"the limiters limit by address. Allocations and CPU are the server's, per request, the HTTP server included.",
		entries: entries,
		columns: append([]column{
			figure("requests/s", perSecond, showRate),
			{"× no limiter", func(e *entry, all []*entry) string {
				return showRatio(ratio(perSecond, e.samples, samplesOf(all, e.framework+", no limiter")))
			}},
			{"× " + redisRateName, func(e *entry, all []*entry) string {
				return showRatio(ratio(perSecond, e.samples, samplesOf(all, e.framework+", "+redisRateName)))
			}},
			figure("p50", p50, showTime),
			figure("p99", p99, showTime),
		}, costs()...),
		plots: []plotted{{"requests per second", perSecond, netHTTP + ", no limiter"}},
	}}, err
}

// serving opens a service.
func (b *bench) serving(v service) func(*setup, quota) (Ask, error) {
	return func(s *setup, q quota) (Ask, error) {
		handler, err := v.handler(s, q)
		if err != nil {
			return nil, err
		}
		return nil, s.serve(handler)
	}
}

// verifyService asks a service until it answers 429.
func (b *bench) verifyService(ctx context.Context, v service) (err error) {
	if v.limiter == "" {
		return nil
	}
	if err := b.empty(ctx); err != nil {
		return err
	}
	s := &setup{address: b.redis}
	defer func() {
		if failure := s.close(); err == nil {
			err = failure
		}
	}()
	handler, err := v.handler(s, strict())
	if err != nil {
		return fmt.Errorf("bench: opening %s: %w", v.name(), err)
	}
	return admitsThenRefuses(v.name(), func() (bool, error) {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))
		switch response.Code {
		case http.StatusOK:
			return true, nil
		case http.StatusTooManyRequests:
			return false, nil
		}
		return false, fmt.Errorf("status %d: %s", response.Code, response.Body)
	})
}

// instant is a store that admits at once, so that what is left is the middleware.
type instant struct{ core.Store }

func (instant) Decide(_ context.Context, checks []core.Check, decisions []core.Decision) error {
	for i := range checks {
		decisions[i] = core.Decision{
			Allowed: true, Limit: checks[i].Limit, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second,
		}
	}
	return nil
}

func (instant) Close() error { return nil }

func onInstant(*setup) core.Store { return instant{} }

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
			{"of it the limiter", func(e *entry, all []*entry) string { return showTime(beyondNone(e, all, secondsEach).median) }},
			figure("allocations", allocationsEach, showCount),
			{"of them the limiter's", func(e *entry, all []*entry) string { return showCount(beyondNone(e, all, allocationsEach).median) }},
		},
		plots: []plotted{{"time of a request", secondsEach, netHTTP + ", no limiter"}},
	}}, err
}

// guardName is the limiter of the services that answer from the instant store.
const guardName = "ratelimit, no store"

// beyondNone is a figure less that of the same framework without a limiter.
func beyondNone(e *entry, all []*entry, of metric) spread {
	none := samplesOf(all, e.framework+", no limiter")
	differences := make([]float64, len(e.samples))
	for i := range e.samples {
		differences[i] = of(e.samples[i]) - of(none[i])
	}
	return spreadOf(differences)
}
