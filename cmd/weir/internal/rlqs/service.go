// Package rlqs assigns parts of limits to proxies, which decide by themselves then: the service envoy.service.rate_limit_quota.v3.
//
// An assignment is a lease. Its units are charged ahead of time; the proxy may spend them until the lease ends, and tells what it has spent. What was not
// spent is given back then, unless a report may be missing. A proxy that is silent, or gone, gives nothing back. So however many proxies there are, no
// more passes in a time t than the limit admits in t and one lease.
package rlqs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/core"
)

const (
	// DefaultLease is how long a lease lasts by default: the proxy is told four seconds.
	DefaultLease = 5 * time.Second
	// ShortestLease leaves a second to the proxy, which counts in whole ones.
	ShortestLease = 2 * time.Second

	// mostOfStream is how many buckets a stream may have, and mostBuckets all of them.
	mostOfStream = 20_000
	mostBuckets  = 200_000
	// mostEntries is how many entries the id of a bucket may have, and longestID how many bytes.
	mostEntries, longestID = 64, 4096
	// idle is after how many leases without a request a bucket is abandoned.
	idle = 12
	// mostAtOnce is how many buckets of one message are asked about at once.
	mostAtOnce = 64
	// mostActions is how many buckets an answer is about.
	mostActions = 1000
)

// Options change how quotas are assigned.
type Options struct {
	// Lease is how long an assignment lasts, in whole seconds. The default is DefaultLease.
	Lease time.Duration
	// Timeout is how long the store is waited for. The default is 20 milliseconds.
	Timeout time.Duration
	// Shadow assigns all to all buckets, and asks the store about none.
	Shadow bool
	// Open assigns all, and Closed nothing, to buckets that the store has not answered about. The default assigns neither: the assignment that the
	// bucket has goes on, and then the proxy's own settings decide.
	Open, Closed bool
	// Logger is told of panics. The default is slog.Default.
	Logger *slog.Logger
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Service assigns quotas. It may be used by many goroutines at once.
type Service struct {
	pb.UnimplementedRateLimitQuotaServiceServer

	store   core.Store
	config  func() *descriptors.Config
	options Options
	serial  atomic.Uint32
	buckets atomic.Int64
	ending  chan struct{}
	end     sync.Once
}

// New returns a service that charges a store for quotas, by the configuration that a function returns, which may be nil.
func New(store core.Store, config func() *descriptors.Config, options Options) *Service {
	if options.Lease < ShortestLease {
		options.Lease = DefaultLease
	}
	if options.Timeout <= 0 {
		options.Timeout = 20 * time.Millisecond
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	s := &Service{store: store, config: config, options: options, ending: make(chan struct{})}
	s.serial.Store(uint32(time.Now().UnixNano()))
	return s
}

// Close ends all streams, so that proxies go on elsewhere. The quotas that they have last as long as their leases.
func (s *Service) Close() { s.end.Do(func() { close(s.ending) }) }

// stream is the buckets of a proxy.
type stream struct {
	domain  string
	buckets map[string]*known
	swept   time.Time // when the buckets of which no report comes any more were forgotten last
}

// known is a bucket with its id.
type known struct {
	bucket

	id      *pb.BucketId
	entries []descriptors.Entry
}

// received is a message of a proxy, or the error that ends its stream.
type received struct {
	reports *pb.RateLimitQuotaUsageReports
	err     error
}

// StreamRateLimitQuotas takes the reports of a proxy, and answers each message by assignments for the buckets that need some.
func (s *Service) StreamRateLimitQuotas(proxy pb.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	own := stream{buckets: make(map[string]*known)}
	defer func() { s.buckets.Add(-int64(len(own.buckets))) }()
	messages := make(chan received)
	go func() {
		for {
			reports, err := proxy.Recv()
			select {
			case messages <- received{reports, err}:
			case <-proxy.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-s.ending:
			return status.Error(codes.Unavailable, "the service is ending")
		case <-proxy.Context().Done():
			return status.FromContextError(proxy.Context().Err()).Err()
		case m := <-messages:
			if m.err != nil {
				return nil // the proxy has ended the stream
			}
			actions, err := s.answer(proxy.Context(), &own, m.reports)
			if err != nil {
				return err
			}
			for some := range slices.Chunk(actions, mostActions) {
				if err := proxy.Send(&pb.RateLimitQuotaResponse{BucketAction: some}); err != nil {
					return err
				}
			}
		}
	}
}

// answer takes a message of a proxy. A panic is an error of its stream alone.
func (s *Service) answer(
	ctx context.Context, own *stream, reports *pb.RateLimitQuotaUsageReports,
) (actions []*pb.RateLimitQuotaResponse_BucketAction, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(ctx, p)
		}
	}()
	switch domain := reports.GetDomain(); {
	case own.domain == "" && domain == "":
		return nil, status.Error(codes.InvalidArgument, "the first report has to name the domain")
	case own.domain == "":
		own.domain = domain
	case domain != "" && domain != own.domain:
		return nil, status.Errorf(codes.InvalidArgument, "the stream is for the domain %q, and a report for %q", own.domain, domain)
	}
	now := s.options.Now()
	s.sweep(own, now)
	var some []*known
	asked := make(map[*known]bool)
	for _, one := range reports.GetBucketQuotaUsages() {
		b, abandon := s.bucketOf(own, one.GetBucketId())
		if abandon {
			actions = append(actions, abandoned(one.GetBucketId()))
		}
		if b == nil {
			continue
		}
		b.report(now, usage{
			elapsed: max(0, one.GetTimeElapsed().AsDuration()), allowed: one.GetNumRequestsAllowed(), denied: one.GetNumRequestsDenied(),
		})
		if now.Sub(b.used) > idle*s.options.Lease && !asked[b] {
			s.forget(own, b)
			actions = append(actions, abandoned(b.id))
			continue
		}
		if !asked[b] {
			asked[b] = true
			some = append(some, b)
		}
	}
	s.settle(ctx, some, now)
	assigned, err := s.assignAll(ctx, own.domain, some, now)
	return append(actions, assigned...), err
}

// panicked logs a panic, and returns the error of the stream.
func (s *Service) panicked(ctx context.Context, p any) error {
	s.options.Logger.ErrorContext(ctx, "a report has panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the report has panicked")
}

// bucketOf returns the bucket with an id, nil if it has none that makes sense, and whether the proxy is to abandon it since there are too many.
func (s *Service) bucketOf(own *stream, id *pb.BucketId) (b *known, abandon bool) {
	bytes := 0
	for key, value := range id.GetBucket() {
		bytes += len(key) + len(value)
	}
	if n := len(id.GetBucket()); n == 0 || n > mostEntries || bytes > longestID {
		return nil, n > 0
	}
	entries := make([]descriptors.Entry, 0, len(id.GetBucket()))
	for _, key := range slices.Sorted(maps.Keys(id.GetBucket())) {
		entries = append(entries, descriptors.Entry{Key: key, Value: id.GetBucket()[key]})
	}
	name := descriptors.KeyOf(own.domain, entries)
	if b = own.buckets[name]; b != nil {
		return b, false
	}
	if len(own.buckets) >= mostOfStream || s.buckets.Load() >= mostBuckets {
		return nil, true
	}
	b = &known{bucket: bucket{length: s.options.Lease}, id: id, entries: entries}
	own.buckets[name] = b
	s.buckets.Add(1)
	return b, false
}

// forget ends a bucket. What it has lapses.
func (s *Service) forget(own *stream, b *known) {
	delete(own.buckets, descriptors.KeyOf(own.domain, b.entries))
	s.buckets.Add(-1)
}

// sweep forgets the buckets of which no report has come for as long as idle says. A proxy drops a bucket without a word when its assignment has expired.
func (s *Service) sweep(own *stream, now time.Time) {
	if now.Sub(own.swept) < s.options.Lease {
		return
	}
	own.swept = now
	for _, b := range own.buckets {
		if now.Sub(b.reported) > idle*s.options.Lease {
			s.forget(own, b)
		}
	}
}

// settle settles the leases of some buckets that have ended, in one call to the store. Those that it does not settle lapse.
func (s *Service) settle(ctx context.Context, some []*known, now time.Time) {
	list := make([]core.Settlement, 0, len(some))
	for _, b := range some {
		list = append(list, b.ended(now)...)
	}
	for part := range slices.Chunk(list, 256) {
		bounded, cancel := context.WithTimeout(ctx, s.options.Timeout)
		_ = s.store.Settle(bounded, part)
		cancel()
	}
}

// assignAll returns the assignments of those buckets that need one, or the error of one that has panicked.
func (s *Service) assignAll(
	ctx context.Context, domain string, some []*known, now time.Time,
) (actions []*pb.RateLimitQuotaResponse_BucketAction, err error) {
	config := s.config()
	if config == nil {
		return nil, nil
	}
	made := make([]*pb.RateLimitQuotaResponse_BucketAction, len(some))
	failed := make(chan error, 1)
	var all sync.WaitGroup
	slots := make(chan struct{}, mostAtOnce)
	for i, b := range some {
		if !b.due(now) {
			continue
		}
		limit, key := config.Find(domain, b.entries)
		slots <- struct{}{}
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil { // it would end the process
					select {
					case failed <- s.panicked(ctx, p):
					default:
					}
				}
				<-slots
			}()
			made[i] = s.assign(ctx, b, limit, key, now)
		})
	}
	all.Wait()
	select {
	case err = <-failed:
	default:
	}
	return slices.DeleteFunc(made, func(one *pb.RateLimitQuotaResponse_BucketAction) bool { return one == nil }), err
}

// assign returns the assignment of a bucket under a limit, which may be nil, and charges the units. It returns nil if the bucket goes on with what it has.
func (s *Service) assign(ctx context.Context, b *known, limit *descriptors.Limit, key string, now time.Time) *pb.RateLimitQuotaResponse_BucketAction {
	told := s.options.Lease - transit
	switch {
	case s.options.Shadow, limit == nil, limit.Unlimited, limit.Shadow:
		b.granted(lease{at: now}, now.Add(told*2/5))
		return s.blanket(b, typev3.RateLimitStrategy_ALLOW_ALL, told)
	case limit.Holds(): // a proxy tells when a request begins, and not when it ends
		b.granted(lease{at: now}, now.Add(told*2/5))
		return nil
	case limit.RequestsPerUnit == 0:
		b.granted(lease{at: now}, now.Add(told*2/5))
		return s.blanket(b, typev3.RateLimitStrategy_DENY_ALL, told)
	}
	rate := float64(limit.RequestsPerUnit) / limit.Unit.Length().Seconds()
	l := lease{key: key, limit: limit.Counts, at: now}
	calls := []core.Call{{
		Checks: []core.Check{{Key: key, Limit: limit.Counts}}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1),
		Times: b.want(rate, limit.Counts.Capacity()),
	}}
	bounded, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	_, err := s.store.Decide(bounded, calls)
	d := &calls[0].Decisions[0]
	switch {
	case err != nil:
		b.granted(lease{at: now}, now)
		if errors.Is(err, core.ErrInvalid) || !s.options.Open && !s.options.Closed {
			return nil
		}
		rule := typev3.RateLimitStrategy_ALLOW_ALL
		if s.options.Closed {
			rule = typev3.RateLimitStrategy_DENY_ALL
		}
		return s.blanket(b, rule, told)
	case !d.Allowed:
		b.granted(l, now.Add(min(d.RetryAfter, s.options.Lease)))
		if len(b.leases) > 0 { // it spends what it has
			return nil
		}
		return s.blanket(b, typev3.RateLimitStrategy_DENY_ALL, told)
	}
	l.units, l.receipt = max(1, calls[0].Granted), calls[0].Receipts[0]
	b.granted(l, time.Time{})
	return s.action(b, &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: s.tokens(l.units)}}, told)
}

// tokens returns a bucket of some units that is never filled again. A proxy keeps the bucket that it has, used up or not, if the new one has the same numbers:
// so each has other nanoseconds.
func (s *Service) tokens(units int) *typev3.TokenBucket {
	const nanoseconds = 1_000_000_000
	return &typev3.TokenBucket{
		MaxTokens: uint32(units), TokensPerFill: wrapperspb.UInt32(1),
		FillInterval: &durationpb.Duration{Seconds: 365 * 24 * 60 * 60, Nanos: int32(s.serial.Add(1) % nanoseconds)},
	}
}

func (s *Service) blanket(b *known, rule typev3.RateLimitStrategy_BlanketRule, told time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	return s.action(b, &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}, told)
}

// action returns an assignment for a time in whole seconds.
func (s *Service) action(b *known, strategy *typev3.RateLimitStrategy, told time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{
		BucketId: b.id,
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
			QuotaAssignmentAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
				AssignmentTimeToLive: durationpb.New(told.Truncate(time.Second)), RateLimitStrategy: strategy,
			},
		},
	}
}

// abandoned tells a proxy to forget a bucket.
func abandoned(id *pb.BucketId) *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{
		BucketId:     id,
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{AbandonAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{}},
	}
}
