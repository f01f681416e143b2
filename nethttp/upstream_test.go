package ratelimit_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// upstream answers every request with fields, which are lines of a header.
type upstream []string

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: u.header(), Body: http.NoBody, Request: r}, nil
}

func (u upstream) header() http.Header {
	h := make(http.Header)
	for _, line := range u {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// Of two limiters in front of a proxy, each field is sent once, in the dialect of
// whoever has written it last.
func TestNestedLimitersAndUpstreamAreOneSet(t *testing.T) {
	const (
		limits   = `Ratelimit: "outer";r=999;t=999, "inner";r=99;t=99`
		quotas   = `Ratelimit-Policy: "outer";q=1;w=1;weir-burst=1000, "inner";q=1;w=1;weir-burst=100`
		ofDraft6 = `Ratelimit-Policy: 1;w=1;weir-burst=100`
	)
	var (
		draft        = []string{limits, quotas}
		legacy       = upstream{"X-Ratelimit-Limit: 7", "X-Ratelimit-Remaining: 3", "X-Ratelimit-Reset: 2"}
		looserLegacy = upstream{"X-Ratelimit-Limit: 7000", "X-Ratelimit-Remaining: 3000", "X-Ratelimit-Reset: 2"}
		draft6       = upstream{"Ratelimit-Limit: 7", "Ratelimit-Remaining: 3", "Ratelimit-Reset: 2", "Ratelimit-Policy: 7;w=2"}
	)
	for name, c := range map[string]struct {
		outer, inner headers.Writer
		upstream     upstream
		want         []string
	}{
		"two dialects around one of them": {headers.Join(headers.Draft, headers.Legacy), headers.Draft, legacy, append(draft, legacy...)},
		"and upstream is looser": {
			headers.Join(headers.Draft, headers.Legacy), headers.Draft, looserLegacy,
			append(draft, "X-Ratelimit-Limit: 1000", "X-Ratelimit-Remaining: 999", "X-Ratelimit-Reset: 1"),
		},
		"one dialect around two":   {headers.Draft, headers.Join(headers.Draft, headers.Legacy), legacy, append(draft, legacy...)},
		"a dialect around another": {headers.Legacy, headers.Draft, legacy, append(draft, legacy...)},
		"a dialect around one that has a field of it": {
			headers.Draft6, headers.Draft, draft6,
			append(draft, draft6[:3]...),
		},
		"a dialect around one that has another notation of a field": {
			headers.Draft, headers.Draft6,
			upstream{`RateLimit: "day";r=4;t=60`, `RateLimit-Policy: "day";q=5;w=60`},
			[]string{
				`Ratelimit: "outer";r=999;t=999, "day";r=4;t=60`, ofDraft6,
				"Ratelimit-Limit: 100", "Ratelimit-Remaining: 99", "Ratelimit-Reset: 1",
			},
		},
		"a dialect around a smaller one": {
			headers.GitHub, headers.Legacy, append(looserLegacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
			[]string{"X-Ratelimit-Limit: 100", "X-Ratelimit-Remaining: 99", "X-Ratelimit-Reset: 1"},
		},
		"a dialect around none": {headers.Legacy, headers.None, legacy, legacy},
		"a dialect around a larger one": {
			headers.Legacy, headers.GitHub, append(legacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
			append(legacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.New(core.NewMemory())
			var h http.Handler = &httputil.ReverseProxy{
				Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "upstream"}) },
				Transport:      c.upstream,
				ModifyResponse: ratelimit.MergeUpstream,
			}
			h = ratelimit.New(limiter, ratelimit.Options{Headers: c.inner}, ratelimit.Policy{Limit: core.Leaky(100, core.PerSecond(1)).Named("inner")})(h)
			h = ratelimit.New(limiter, ratelimit.Options{Headers: c.outer}, ratelimit.Policy{Limit: core.Leaky(1000, core.PerSecond(1)).Named("outer")})(h)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if want := upstream(c.want).header(); !maps.EqualFunc(w.Header(), want, slices.Equal) {
				t.Errorf("fields\n got %q\nwant %q", w.Header(), want)
			}
		})
	}
}
