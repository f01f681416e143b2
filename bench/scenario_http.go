package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"
)

// connections is how many clients a service is asked by, each on a connection of
// its own.
const connections = 128

// http shows how many of a web server's requests a second are left behind a limiter.
func (b *bench) http(ctx context.Context) ([]comparison, error) {
	b.report("HTTP, %d connections", connections)
	for _, v := range services() {
		if err := b.verifyService(ctx, v); err != nil {
			return nil, err
		}
	}
	// The contenders are services here, opened as the targets of the load.
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
			"the limiters limit by address. Allocations and CPU are the server's, per request, the HTTP server included. *Failed open* are " +
			"requests that were let through since Redis had not answered; the middleware of the others answers them 500, which is an error here.",
		entries: entries,
		columns: append([]column{
			figure("requests/s", perSecond, showRate),
			{"× no limiter", more, func(e *entry, all []*entry) string {
				return showRatio(ratio(perSecond, e.samples, samplesOf(all, e.framework+", no limiter")))
			}},
			{"× " + redisRateName, more, func(e *entry, all []*entry) string {
				return showRatio(ratio(perSecond, e.samples, samplesOf(all, e.framework+", "+redisRateName)))
			}},
			{"× " + redisRateAuto, more, func(e *entry, all []*entry) string {
				return showRatio(ratio(perSecond, e.samples, samplesOf(all, e.framework+", "+redisRateAuto)))
			}},
			figure("p50", p50, showTime),
			figure("p99", p99, showTime),
		}, costs("server")...),
		plots: []plotted{{"http", "requests per second", perSecond, netHTTP + ", no limiter"}},
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
	return admitsThenDenies(v.name(), func() (bool, error) {
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
