package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tokensActions ask whether a tenant has tokens left when a request begins, and report what the upstream says to have used when the stream is done.
const tokensActions = `
                      typed_per_filter_config:
                        envoy.filters.http.ratelimit:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                          rate_limits:
                            - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tokens}}]
                              hits_addend: {number: 0}
                            - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tokens}}]
                              hits_addend: {format: "%DYNAMIC_METADATA(usage:tokens)%"}
                              apply_on_stream_done: true
`

// tokensFilter takes the tokens that a response was worth from its header.
const tokensFilter = `
                  - name: envoy.filters.http.header_to_metadata
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
                      response_rules:
                        - header: x-tokens
                          on_header_present: {metadata_namespace: usage, key: tokens, type: NUMBER}
`

// TestEnvoyTokens sends requests through a real Envoy that reports their tokens to weir serve at their ends. Those that were in progress together are all
// charged, though the first two have used more than was left.
func TestEnvoyTokens(t *testing.T) {
	const together = 3
	inside, proceed := make(chan struct{}, together), make(chan struct{})
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			inside <- struct{}{}
			<-proceed
		}
		w.Header().Set("X-Tokens", "80")
	})
	const limits = "domain: shop\ndescriptors:\n  - {key: tokens, rate_limit: {unit: year, requests_per_unit: 100, algorithm: token_bucket, debt: unlimited}}\n"
	before, rest, _ := strings.Cut(listener, "                      rate_limits:\n")
	_, after, _ := strings.Cut(rest, "                http_filters:\n")
	text := strings.Replace(envoyConfig, denying, "", 1)
	text = strings.Replace(text, listener,
		before+strings.TrimPrefix(tokensActions, "\n")+"                http_filters:\n"+after, 1)
	text = strings.Replace(text, "                  - name: envoy.filters.http.router\n",
		strings.TrimPrefix(tokensFilter, "\n")+"                  - name: envoy.filters.http.router\n", 1)
	stand := behindEnvoy(t, shop, text, limits, served{})

	get := func(path string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+stand.address+path, http.NoBody)
		if err != nil {
			t.Error(err)
			return nil
		}
		request.Header.Set("X-Tenant", "one")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return nil
		}
		_ = response.Body.Close()
		return response
	}
	ended := make(chan *http.Response)
	for range together {
		go func() { ended <- get("/slow") }()
	}
	for range together {
		<-inside
	}
	close(proceed)
	for range together {
		if response := <-ended; response == nil || response.StatusCode != http.StatusOK {
			t.Errorf("a request that found tokens is answered %v", response)
		}
	}
	// The wait for a token tells the debt: each takes a hundredth of a year.
	const token = 365 * 24 * 60 * 60 / 100
	passed := together
	for deadline := time.Now().Add(envoyPatience); ; time.Sleep(10 * time.Millisecond) {
		response := get("/")
		if response == nil {
			return
		}
		if response.StatusCode == http.StatusOK { // the reports have not arrived yet
			passed++
		}
		reset, _ := strconv.Atoi(response.Header.Get("X-Ratelimit-Reset"))
		if want := (80*passed - 100 + 1) * token; response.StatusCode == http.StatusTooManyRequests && want-300 < reset && reset <= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %d requests of 80 tokens the answer is %d, %v", passed, response.StatusCode, response.Header)
		}
	}
}
