package rls

import (
	"context"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/metrics"
)

// answered counts a request by its answer.
func (s *Service) answered(ctx context.Context, response *pb.RateLimitResponse, err error, begun time.Time) {
	if s.options.Metrics == nil {
		return
	}
	outcome := metrics.Allowed
	switch {
	case err != nil:
		outcome = metrics.Failed
	case response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT:
		outcome = metrics.Denied
	}
	s.options.Metrics.Answered(ctx, outcome, time.Since(begun))
	switch status.Code(err) {
	case codes.Unknown, codes.InvalidArgument, codes.Internal:
		s.options.Metrics.Reference().Refused()
	default:
	}
}

// countersOf returns the counters of a descriptor that has met a limit, or nil if descriptors are not counted.
func (s *Service) countersOf(
	config *descriptors.Config, domain string, entries []descriptors.Entry, limit *descriptors.Limit, own bool,
) *metrics.Descriptor {
	reference := s.options.Metrics.Reference()
	switch {
	case reference == nil, limit.Unlimited:
		return nil
	case own:
		return reference.OfOverride(domain, entries)
	}
	return reference.Of(config, domain, entries, limit)
}

// countHits counts the hits of all descriptors by the answers about them. Hits that are given back are not counted.
func (s *Service) countHits(all []question, denied, decided bool) {
	reference := s.options.Metrics.Reference()
	if reference == nil {
		return
	}
	if denied && decided && s.options.Shadow {
		reference.Shadowed()
	}
	for i := range all {
		q := &all[i]
		if q.counters == nil || q.negative || !q.counted() { // another limit may have taken its place
			continue
		}
		asReference := s.options.AsReference && q.limit.Plain()
		partly := asReference || q.limit.Owes()
		limit := 0
		if q.limit.RequestsPerUnit > 0 {
			limit = q.limit.Of().Capacity()
		}
		before := uint64(max(0, q.used))
		if asReference || !denied && !q.over { // they were charged
			before -= min(before, q.hits)
		}
		reference.Count(q.counters, metrics.Hits{
			Hits: q.hits, Decided: decided, Before: before, Limit: uint64(limit), Over: q.over, Partly: partly, Shadow: q.limit.Shadow, Cached: q.cached,
		})
	}
}
