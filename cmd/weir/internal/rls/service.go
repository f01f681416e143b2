// Package rls answers Envoy's question whether a request is over a limit: the service envoy.service.ratelimit.v3, and the same as JSON over HTTP.
//
// All descriptors of a request are one call to the store: all of them are charged, or none. A request that is denied costs nothing.
package rls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/metrics"
	"github.com/weir-go/ratelimit/core"
)

// OnError tells how a request is answered while the store cannot answer.
type OnError string

// The answers while the store cannot answer.
const (
	Fail   OnError = "error"  // an error, so that the proxy's own setting decides
	Open   OnError = "open"   // requests pass
	Closed OnError = "closed" // requests are denied
)

// Options change how a service answers.
type Options struct {
	// AsReference counts as the reference does: each descriptor is charged by itself, also if it is over its limit or another one is.
	AsReference bool
	// Shadow lets all requests pass. The answers for the descriptors tell what would have been.
	Shadow bool
	// Quota treats each limit as one with quota_mode.
	Quota bool
	// Headers are the names of three fields of the response, for the limit, the units left and the seconds until it begins anew. Without a first name
	// there are none.
	Headers [3]string
	// Metadata adds dynamic metadata to the answers.
	Metadata bool
	// OnError is the answer while the store cannot answer. The default is Fail.
	OnError OnError
	// Timeout is how long a request waits for the store at most. The default is 20 milliseconds.
	Timeout time.Duration
	// Store is the store of the limiter. It is needed for limits of places.
	Store core.Store
	// Metrics count the requests. The default, nil, is none.
	Metrics *metrics.Metrics
	// Logger is told of panics. The default is slog.Default.
	Logger *slog.Logger
	// Now is the clock that tells when a window ends of which nothing was used. The default is time.Now.
	Now func() time.Time
}

// Service is a rate limit service. It may be used by many goroutines at once.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	limiter *core.Limiter
	options Options
	config  atomic.Pointer[descriptors.Config]
}

// New returns a service that asks a limiter. It has no configuration yet.
func New(limiter *core.Limiter, options Options) *Service {
	if options.Timeout <= 0 {
		options.Timeout = 20 * time.Millisecond
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	return &Service{limiter: limiter, options: options}
}

// Use answers requests by a configuration from now on. What was used under a limit that stays counts on.
func (s *Service) Use(config *descriptors.Config) {
	s.options.Metrics.Reference().Use(config)
	s.options.Metrics.Configured(true)
	s.config.Store(config)
}

// Config returns the configuration, or nil if there is none yet.
func (s *Service) Config() *descriptors.Config { return s.config.Load() }

// ShouldRateLimit answers a request. A panic is an error of this request alone.
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (response *pb.RateLimitResponse, err error) {
	begun := time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.ErrorContext(ctx, "a request has panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			response, err = nil, status.Error(codes.Internal, "the request has panicked")
		}
		s.answered(ctx, response, err, begun)
	}()
	return s.respond(ctx, request)
}

// respond answers a request.
func (s *Service) respond(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	config := s.config.Load()
	switch { // the reference answers these three with the code Unknown
	case request.GetDomain() == "":
		return nil, status.Error(codes.Unknown, "rate limit domain must not be empty")
	case len(request.GetDescriptors()) == 0:
		return nil, status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
	case config == nil:
		return nil, status.Error(codes.Unknown, "no rate limit configuration loaded")
	}
	all, err := s.questions(config, request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	bounded, cancel := s.bound(ctx)
	defer cancel()
	var denied bool
	if s.options.AsReference {
		denied, err = s.count(bounded, all)
	} else {
		denied, err = s.decide(bounded, all)
	}
	s.countHits(all, denied, err == nil)
	switch {
	case err == nil:
	case errors.Is(err, core.ErrInvalid):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	default:
		return s.unanswered(all, err)
	}
	return s.answer(request, all, denied), nil
}

// bound gives a request the time that it may wait for the store. A client that waits no longer itself, such as Envoy by its own default, needs no more.
func (s *Service) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ends := ctx.Deadline(); ends && time.Until(end) <= s.options.Timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// mostDescriptors is how many descriptors a request may have: as many as a call may have checks.
const mostDescriptors = 256

// question is about a descriptor of a request, and its answer.
type question struct {
	limit    *descriptors.Limit // nil if none counts
	key      string
	hits     uint64
	negative bool                // the hits are given back
	quota    bool                // the limit denies only if all with quota do
	counters *metrics.Descriptor // nil if nothing is counted

	over      bool
	cached    bool // this process has remembered the denial
	used      int  // of the limit, with the hits if they were within it and charged
	remaining int
	reset     time.Duration
}

// counted reports whether there is something to count.
func (q *question) counted() bool { return q.limit != nil && !q.limit.Unlimited }

// look reports whether nothing is to be charged.
func (q *question) look() bool { return q.hits == 0 }

// questions returns a question for each descriptor.
func (s *Service) questions(config *descriptors.Config, request *pb.RateLimitRequest) ([]question, error) {
	if n := len(request.GetDescriptors()); n > mostDescriptors {
		return nil, fmt.Errorf("the request has %d descriptors, and %d are possible", n, mostDescriptors)
	}
	domain := request.GetDomain()
	all := make([]question, len(request.GetDescriptors()))
	replaced := make(map[string]bool)
	for i, d := range request.GetDescriptors() {
		q := &all[i]
		q.hits, q.negative = max(1, uint64(request.GetHitsAddend())), d.GetIsNegativeHits()
		if own := d.GetHitsAddend(); own != nil {
			q.hits = own.GetValue()
		}
		entries := make([]descriptors.Entry, len(d.GetEntries()))
		for j, e := range d.GetEntries() {
			entries[j] = descriptors.Entry{Key: e.GetKey(), Value: e.GetValue()}
		}
		var err error
		switch {
		case !config.Has(domain):
			s.options.Metrics.Reference().Unknown(domain)
		case d.GetLimit() != nil:
			q.key = descriptors.KeyOf(domain, entries)
			q.limit, err = override(d.GetLimit())
		default:
			q.limit, q.key = config.Find(domain, entries)
		}
		if err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
		if q.limit != nil {
			q.counters = s.countersOf(config, request.GetDomain(), entries, q.limit, d.GetLimit() != nil)
			q.quota = (q.limit.Quota || s.options.Quota) && !q.limit.Shadow
			for _, name := range q.limit.Replaces {
				replaced[name] = true
			}
		}
	}
	for i := range all {
		if q := &all[i]; q.counted() && q.limit.Name != "" && replaced[q.limit.Name] {
			q.limit = nil
		}
	}
	return all, nil
}

// override returns the limit that a descriptor brings.
func override(own *common.RateLimitDescriptor_RateLimitOverride) (*descriptors.Limit, error) {
	unit := own.GetUnit()
	if _, known := typev3.RateLimitUnit_name[int32(unit)]; !known || unit == typev3.RateLimitUnit_UNKNOWN {
		return nil, fmt.Errorf("its limit has the unit %v, which is none", unit)
	}
	return descriptors.Override(own.GetRequestsPerUnit(), descriptors.Unit(unit.String()))
}

// unanswered answers a request that the store has not answered.
func (s *Service) unanswered(all []question, err error) (*pb.RateLimitResponse, error) {
	s.options.Metrics.Reference().StoreFailed()
	if s.options.OnError != Open && s.options.OnError != Closed {
		return nil, status.Errorf(codes.Unavailable, "the store cannot answer: %v", core.FailureOf(err))
	}
	response := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	for i := range all {
		one := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
		if q := &all[i]; s.options.OnError == Closed && q.counted() && !q.limit.Shadow {
			one.Code = pb.RateLimitResponse_OVER_LIMIT
			if !s.options.Shadow {
				response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
			}
		}
		response.Statuses = append(response.Statuses, one)
	}
	return response, nil
}
