package headers_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name     string
		w        headers.Writer
		policies []headers.Outcome
	}{
		{"Draft/one", headers.Draft, policies(first)},
		{"Draft/three", headers.Draft, policies(first, opened, closing)},
		{"Draft/denied", headers.Draft, policies(full)},
		{"Prepared/one", dialect.Prepare(headers.Draft, policies(first)), policies(first)},
		{"Prepared/three", dialect.Prepare(headers.Draft, policies(first, opened, closing)), policies(first, opened, closing)},
		{"Partitioned/one", headers.DraftPartitioned(partitionSecret), policies(first)},
		{"Draft7/one", headers.Draft7, policies(first)},
		{"Draft6/three", headers.Draft6, policies(first, opened, closing)},
		{"Legacy/one", headers.Legacy, policies(first)},
		{"RateLimitedFor/denied", headers.RateLimitedFor, policies(full)},
		{"None/one", headers.None, policies(first)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			h := http.Header{}
			for b.Loop() {
				c.w.Write(h, c.policies)
			}
		})
	}
}

func BenchmarkRetryAfter(b *testing.B) {
	list := policies(first, full, closed)
	b.ReportAllocs()
	for b.Loop() {
		headers.RetryAfter(list)
	}
}
