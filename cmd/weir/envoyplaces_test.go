package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// placesActions take a place when a request begins, and give one back when its stream is done. That is done by a filter of its own behind the first one,
// since Envoy tells of the end of denied requests, too, of those filters that have seen them.
const placesActions = `
                      typed_per_filter_config:
                        envoy.filters.http.ratelimit:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                          rate_limits:
                            - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}]
                        give_back:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                          rate_limits:
                            - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}]
                              hits_addend: {number: 1, is_negative_hits: true}
                              apply_on_stream_done: true
`

// TestEnvoyPlaces sends requests through a real Envoy that takes places of weir serve and gives them back: as many are at the upstream as there are places,
// and those that were served, or whose clients have gone, leave theirs to others.
func TestEnvoyPlaces(t *testing.T) {
	inside := make(chan func(), 100) // each releases one request
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := make(chan struct{})
		inside <- func() { close(done) }
		select {
		case <-done:
		case <-r.Context().Done():
		}
	})
	const limits = "domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: concurrent, lease: 10m}}\n"
	before, rest, _ := strings.Cut(listener, "                      rate_limits:\n")
	_, after, _ := strings.Cut(rest, "                http_filters:\n")
	text := strings.Replace(envoyConfig, denying, "", 1)
	text = strings.Replace(text, listener, before+strings.TrimPrefix(placesActions, "\n")+"                http_filters:\n"+after, 1)
	front, rest, _ := strings.Cut(text, "                  - name: envoy.filters.http.ratelimit\n")
	filter, last, _ := strings.Cut(rest, "                  - name: envoy.filters.http.router\n")
	text = front + "                  - name: envoy.filters.http.ratelimit\n" + filter + "                  - name: give_back\n" + filter +
		"                  - name: envoy.filters.http.router\n" + last
	address := behindEnvoy(t, shop, text, limits, served{}).address

	send := func(ctx context.Context) chan int {
		answered := make(chan int, 1)
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
			if err != nil {
				t.Error(err)
			}
			request.Header.Set("X-Tenant", "one")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				answered <- 0
				return
			}
			_ = response.Body.Close()
			answered <- response.StatusCode
		}()
		return answered
	}
	// enters sends requests until one has a place, since a place is given back after its response.
	enters := func(ctx context.Context) (release func(), answered chan int) {
		t.Helper()
		for deadline := time.Now().Add(envoyPatience); ; {
			answered := send(ctx)
			select {
			case release := <-inside:
				return release, answered
			case <-answered:
			}
			if time.Now().After(deadline) {
				t.Fatal("no request gets a place")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	full := func() {
		t.Helper()
		for range 3 {
			if status := <-send(t.Context()); status != http.StatusTooManyRequests {
				t.Fatalf("with two requests at the upstream another is answered %d", status)
			}
		}
	}
	done, answered := enters(t.Context())
	ctx, leave := context.WithCancel(t.Context())
	_, left := enters(ctx)
	full()
	done()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("a request with a place is answered %d", status)
	}
	third, _ := enters(t.Context())
	full()
	leave() // the client goes away
	<-left
	fourth, _ := enters(t.Context())
	full()
	third()
	fourth()
}
