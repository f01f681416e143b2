package rlqs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rlqs"
	"github.com/weir-go/ratelimit/core"
)

const file = `
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 864000}}
  - {key: small, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: banned, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: app
    descriptors: [{key: tenant, value: one, rate_limit: {unit: day, requests_per_unit: 7}}]
`

// counting counts the calls to a store.
type counting struct {
	core.Store

	asked, settled atomic.Int64
	fails, panics  atomic.Bool
}

func (c *counting) Decide(ctx context.Context, calls []core.Call) (int, error) {
	c.asked.Add(1)
	if c.panics.Load() {
		panic("the store")
	}
	if c.fails.Load() {
		return 0, core.ErrNotDone
	}
	return c.Store.Decide(ctx, calls)
}

func (c *counting) Settle(ctx context.Context, list []core.Settlement) error {
	c.settled.Add(1)
	return c.Store.Settle(ctx, list)
}

// stand is a service with a store in memory.
type stand struct {
	service *rlqs.Service
	store   *counting
	limiter *core.Limiter
	config  *descriptors.Config
	client  pb.RateLimitQuotaServiceClient
}

func start(t *testing.T, options rlqs.Options) *stand {
	t.Helper()
	config, err := descriptors.Parse([]descriptors.File{{Name: "shop.yaml", Text: []byte(file)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{store: &counting{Store: core.NewMemory()}, config: config}
	s.limiter = core.New(s.store.Store)
	options.Timeout = time.Minute
	s.service = rlqs.New(s.store, func() *descriptors.Config { return config }, options)
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	pb.RegisterRateLimitQuotaServiceServer(server, s.service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("passthrough:weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	s.client = pb.NewRateLimitQuotaServiceClient(connection)
	return s
}

// stream is a stream of one proxy.
type stream struct {
	*testing.T
	pb.RateLimitQuotaService_StreamRateLimitQuotasClient
}

func (s *stand) stream(t *testing.T) stream {
	t.Helper()
	own, err := s.client.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream{t, own}
}

func used(allowed uint64, pairs ...string) *pb.RateLimitQuotaUsageReports_BucketQuotaUsage {
	id := &pb.BucketId{Bucket: make(map[string]string)}
	for i := 0; i < len(pairs); i += 2 {
		id.Bucket[pairs[i]] = pairs[i+1]
	}
	return &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: id, TimeElapsed: durationpb.New(0), NumRequestsAllowed: allowed}
}

// ask sends a report, and returns the assignments that answer it, as text, by the values of their buckets.
func (s stream) ask(usages ...*pb.RateLimitQuotaUsageReports_BucketQuotaUsage) (answers []string) {
	s.Helper()
	if err := s.Send(&pb.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: usages}); err != nil {
		s.Fatal(err)
	}
	response, err := s.Recv()
	if err != nil {
		s.Fatal(err)
	}
	if err := response.ValidateAll(); err != nil {
		s.Error(err)
	}
	for _, a := range response.GetBucketAction() {
		answers = append(answers, text(a))
	}
	return answers
}

func text(a *pb.RateLimitQuotaResponse_BucketAction) string {
	assigned := a.GetQuotaAssignmentAction()
	if assigned == nil {
		return "abandon"
	}
	told := assigned.GetAssignmentTimeToLive().AsDuration()
	if tokens := assigned.GetRateLimitStrategy().GetTokenBucket(); tokens != nil {
		return fmt.Sprintf("%d for %v", tokens.GetMaxTokens(), told)
	}
	return fmt.Sprintf("%v for %v", assigned.GetRateLimitStrategy().GetBlanketRule(), told)
}

// The first report of a bucket is answered at once, by the same limits as the requests of the rate limit service.
func TestFirstAssignments(t *testing.T) {
	s := start(t, rlqs.Options{})
	own := s.stream(t)
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"tenant", "a"}, "13 for 4s"}, // a quarter of 10 a second for 5 seconds
		{[]string{"small", "a"}, "1 for 4s"},
		{[]string{"banned", "a"}, "DENY_ALL for 4s"},
		{[]string{"free", "a"}, "ALLOW_ALL for 4s"},
		{[]string{"shadow", "a"}, "ALLOW_ALL for 4s"},
		{[]string{"none", "a"}, "ALLOW_ALL for 4s"},
		{[]string{"tenant", "one", "app", "any"}, "1 for 4s"}, // sorted: app comes first
	} {
		if got := own.ask(used(1, test.pairs...)); !slices.Equal(got, []string{test.want}) {
			t.Errorf("%v is assigned %q, want %q", test.pairs, got, test.want)
		}
	}
	limit, key := s.config.Find("shop", []descriptors.Entry{{Key: "tenant", Value: "a"}})
	if d, err := s.limiter.Peek(t.Context(), key, limit.Counts); err != nil || d.Remaining != 864000-13 {
		t.Errorf("%d units are left, %v: what is assigned is to be charged", d.Remaining, err)
	}
}

// In shadow mode all buckets are assigned all, also those of limits that are used up or that nothing passes, and while the store cannot answer.
func TestShadowAssignsAll(t *testing.T) {
	s := start(t, rlqs.Options{Shadow: true, Closed: true})
	s.store.fails.Store(true)
	own := s.stream(t)
	for _, key := range []string{"tenant", "small", "banned", "free", "shadow", "none"} {
		if got, want := own.ask(used(1000, key, "a")), []string{"ALLOW_ALL for 4s"}; !slices.Equal(got, want) {
			t.Errorf("%s is assigned %q, want %q", key, got, want)
		}
	}
	if n := s.store.asked.Load(); n > 0 {
		t.Errorf("the store is asked %d times about quotas that nothing limits", n)
	}
}

// Of a limit that is used up nothing is assigned, and a proxy that is assigned part of it gets what is left.
func TestWhatIsLeftIsAssigned(t *testing.T) {
	s := start(t, rlqs.Options{})
	if got, want := s.stream(t).ask(used(2, "small", "a")), []string{"2 for 4s"}; !slices.Equal(got, want) {
		t.Errorf("the first proxy is assigned %q, want %q", got, want)
	}
	if got, want := s.stream(t).ask(used(5, "small", "a")), []string{"1 for 4s"}; !slices.Equal(got, want) {
		t.Errorf("the second proxy is assigned %q, want %q", got, want)
	}
	if got, want := s.stream(t).ask(used(1, "small", "a")), []string{"DENY_ALL for 4s"}; !slices.Equal(got, want) {
		t.Errorf("the third proxy is assigned %q, want %q", got, want)
	}
}

// While the store cannot answer, the proxy's own settings decide, or the error mode of the service.
func TestStoreIsGone(t *testing.T) {
	const banned = "DENY_ALL for 4s" // which needs no store
	for _, test := range []struct {
		options rlqs.Options
		want    []string
	}{
		{rlqs.Options{}, []string{banned}}, {rlqs.Options{Open: true}, []string{"ALLOW_ALL for 4s", banned}}, {rlqs.Options{Closed: true}, []string{banned, banned}},
	} {
		s := start(t, test.options)
		s.store.fails.Store(true)
		if got := s.stream(t).ask(used(1, "tenant", "a"), used(1, "banned", "a")); !slices.Equal(got, test.want) {
			t.Errorf("with %+v two buckets are assigned %q, want %q", test.options, got, test.want)
		}
	}
}

// Streams that make no sense end, and reports without a bucket are passed over. All others go on.
func TestRubbish(t *testing.T) {
	s := start(t, rlqs.Options{})
	long := strings.Repeat("x", 5000)
	for name, list := range map[string][]*pb.RateLimitQuotaUsageReports{
		"no domain":     {{BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{used(1, "small", "a")}}},
		"other domains": {{Domain: "shop"}, {Domain: "other"}},
	} {
		own := s.stream(t)
		for _, one := range list {
			_ = own.Send(one)
		}
		if _, err := own.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, err)
		}
	}
	own := s.stream(t)
	negative := used(1, "tenant", "b")
	negative.TimeElapsed = &durationpb.Duration{Seconds: -1 << 62, Nanos: -1 << 31}
	got := own.ask(used(1), &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{}, nil, used(1<<63, "tenant", "a"), used(1<<63, "tenant", "a"), used(1, "tenant", long), negative)
	if want := []string{"abandon", "864000 for 4s", "13 for 4s"}; !slices.Equal(got, want) {
		t.Errorf("rubbish beside two buckets is answered %q, want %q", got, want)
	}
	if s.store.asked.Load() != 2 {
		t.Errorf("the store is asked %d times about two buckets", s.store.asked.Load())
	}
}

// A proxy drops buckets without a word. A stream that lasts forgets them, and has room for new ones.
func TestSilentBucketsAreForgotten(t *testing.T) {
	var now atomic.Int64
	s := start(t, rlqs.Options{Now: func() time.Time { return time.Unix(1_800_000_000+now.Load(), 0) }})
	own := s.stream(t)
	many := func(name string, n int) []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage {
		usages := make([]*pb.RateLimitQuotaUsageReports_BucketQuotaUsage, n)
		for i := range usages {
			usages[i] = used(1, "free", fmt.Sprint(name, i))
		}
		return usages
	}
	for round := range 20 {
		own.ask(many(fmt.Sprint(round, "-"), 1000)...)
	}
	if got, want := own.ask(used(1, "free", "new")), []string{"abandon"}; !slices.Equal(got, want) {
		t.Errorf("a bucket too many is answered %q, want %q", got, want)
	}
	now.Store(30)
	own.ask(many("0-", 1)...) // which goes on
	now.Store(61)
	if got, want := own.ask(used(1, "free", "new")), []string{"ALLOW_ALL for 4s"}; !slices.Equal(got, want) {
		t.Errorf("after twelve leases in which all but one were silent, a new bucket is answered %q, want %q", got, want)
	}
	own.ask(many("then-", 999)...)
	for round := range 18 {
		own.ask(many(fmt.Sprint("then", round, "-"), 1000)...)
	}
	if got, want := own.ask(many("last-", 999)...), 999; len(got) != want || slices.Contains(got, "abandon") {
		t.Errorf("%d new buckets are answered about %d", want, len(got))
	}
	if got, want := own.ask(many("most-", 2)...), []string{"abandon", "abandon"}; !slices.Equal(got, want) {
		t.Errorf("%d buckets too many are answered %d times: %.200q", len(want), len(got), got)
	}
}

// A panic ends its stream alone.
func TestPanicsEndTheirStream(t *testing.T) {
	s := start(t, rlqs.Options{Logger: slog.New(slog.DiscardHandler)})
	s.store.panics.Store(true)
	own := s.stream(t)
	if err := own.Send(&pb.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
		used(1, "tenant", "a"), used(1, "tenant", "b"),
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("the stream ends with %v, want Internal", err)
	}
	s.store.panics.Store(false)
	if got, want := s.stream(t).ask(used(1, "tenant", "a")), []string{"13 for 4s"}; !slices.Equal(got, want) {
		t.Errorf("the next stream is assigned %q, want %q", got, want)
	}
}

// Close ends the streams, so that their proxies go on elsewhere.
func TestCloseEndsStreams(t *testing.T) {
	s := start(t, rlqs.Options{})
	own := s.stream(t)
	own.ask(used(1, "tenant", "a"))
	s.service.Close()
	if _, err := own.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v, want Unavailable", err)
	}
}

// Two assignments of as many units differ, since a proxy would keep the bucket that it has used up.
func TestAssignmentsDiffer(t *testing.T) {
	s := start(t, rlqs.Options{})
	seen := make(map[int32]bool)
	for range 10 {
		own := s.stream(t)
		if err := own.Send(&pb.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{used(1, "tenant", "a")}}); err != nil {
			t.Fatal(err)
		}
		response, err := own.Recv()
		if err != nil {
			t.Fatal(err)
		}
		tokens := response.GetBucketAction()[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
		if seen[tokens.GetFillInterval().GetNanos()] || tokens.GetFillInterval().GetSeconds() < 1<<20 {
			t.Errorf("assigned %v, which is as before, or fills", tokens)
		}
		seen[tokens.GetFillInterval().GetNanos()] = true
	}
}
