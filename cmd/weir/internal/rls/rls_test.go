package rls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// clock is the time of all tests that do not ask Redis: in the middle of every window.
var clock = time.Date(2026, 11, 25, 10, 30, 15, 0, time.UTC)

// serve returns a service on a store in memory, by a configuration.
func serve(t *testing.T, options Options, file string) *Service {
	t.Helper()
	now := func() time.Time { return clock }
	store := core.NewMemory(core.WithClock(now))
	return serveOn(t, store, options, file)
}

func serveOn(t *testing.T, store core.Store, options Options, file string) *Service {
	t.Helper()
	limiter := core.New(store)
	t.Cleanup(func() { _ = limiter.Close() })
	options.Now, options.Store = func() time.Time { return clock }, store
	if options.Timeout == 0 {
		options.Timeout = time.Minute
	}
	s := New(limiter, options)
	s.Use(configure(t, file))
	return s
}

func configure(t testing.TB, file string) *descriptors.Config {
	t.Helper()
	config, err := descriptors.Parse([]descriptors.File{{Name: "test.yaml", Text: []byte(file)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// descriptor makes a descriptor of "key=value" texts.
func descriptor(texts ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// hits sets the hits of a descriptor.
func hits(n uint64, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func refund(n uint64, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.IsNegativeHits = true
	return hits(n, d)
}

func bring(n uint32, unit typev3.RateLimitUnit, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

// ask asks and returns the answer.
func ask(t *testing.T, s *Service, all ...*common.RateLimitDescriptor) *pb.RateLimitResponse {
	t.Helper()
	response, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: all})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// short is an answer in short: the overall code, and for each descriptor its code and the units left.
func short(r *pb.RateLimitResponse) string {
	code := func(c pb.RateLimitResponse_Code) string {
		return map[pb.RateLimitResponse_Code]string{pb.RateLimitResponse_OK: "ok", pb.RateLimitResponse_OVER_LIMIT: "over"}[c]
	}
	parts := []string{code(r.GetOverallCode()) + ":"}
	for _, one := range r.GetStatuses() {
		parts = append(parts, code(one.GetCode()))
		if one.GetCurrentLimit() != nil {
			parts = append(parts, strconv.FormatUint(uint64(one.GetLimitRemaining()), 10))
		}
	}
	return strings.Join(parts, " ")
}

// step is a request with its answer in short.
type step struct {
	want string
	all  []*common.RateLimitDescriptor
}

func of(want string, all ...*common.RateLimitDescriptor) step { return step{want, all} }

// walk asks one step after the other.
func walk(t *testing.T, s *Service, steps ...step) {
	t.Helper()
	for i, one := range steps {
		if got := short(ask(t, s, one.all...)); got != one.want {
			t.Errorf("request %d is answered %q, want %q", i+1, got, one.want)
		}
	}
}

const limits = `
domain: d
descriptors:
  - {key: three, rate_limit: {unit: minute, requests_per_unit: 3, name: three}}
  - {key: five, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: q1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: instead, rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: three}]}}
  - {key: leaky, rate_limit: {unit: minute, requests_per_unit: 6, algorithm: leaky, burst: 2}}
`

// TestLimits counts to each limit.
func TestLimits(t *testing.T) {
	walk(t, serve(t, Options{}, limits),
		of("ok: ok 2", descriptor("three=a")), of("ok: ok 1", descriptor("three=a")), of("ok: ok 0", descriptor("three=a")),
		of("over: over 0", descriptor("three=a")),
		of("ok: ok 2", descriptor("three=b")),
		of("ok: ok 4", descriptor("five")),
		of("over: over 0", descriptor("banned")),
		of("ok: ok", descriptor("free")), of("ok: ok", descriptor("unknown")),
		of("ok: ok 8 ok", descriptor("instead"), descriptor("three=a")),
		of("ok: ok 1", descriptor("leaky")), of("ok: ok 0", descriptor("leaky")), of("over: over 0", descriptor("leaky")),
	)
}

// TestAllOrNone: a request that one of its descriptors denies charges none of them. The reference empties the first one (fault 3).
func TestAllOrNone(t *testing.T) {
	walk(t, serve(t, Options{}, limits),
		of("over: ok 3 over 0", descriptor("three"), descriptor("banned")),
		of("over: ok 3 over 0", descriptor("three"), descriptor("banned")),
		of("over: ok 3 over 5", hits(3, descriptor("three")), hits(6, descriptor("five"))),
		of("over: over 3", hits(5, descriptor("three"))), // five hits against three left: not charged
		of("ok: ok 2", descriptor("three")),
	)
}

// TestAsReference counts what the reference counts, in the same requests.
func TestAsReference(t *testing.T) {
	walk(t, serve(t, Options{AsReference: true}, limits),
		of("over: ok 2 over 0", descriptor("three"), descriptor("banned")),
		of("over: ok 1 over 0", descriptor("three"), descriptor("banned")),
		of("over: over 0", hits(5, descriptor("three"))),
		of("over: over 0", hits(0, descriptor("three"))),
		of("ok: ok 0", hits(3, descriptor("three=full"))),
		of("ok: ok 0", hits(0, descriptor("three=full"))), // a look at a full counter
		of("over: over 0", descriptor("three=full")),
		of("ok: ok 0", hits(0, descriptor("banned=other"))),
		of("ok: ok 0", descriptor("shadow")), of("ok: ok 0", descriptor("shadow")),
		of("ok: ok 0 ok 1", descriptor("q1"), descriptor("q2")),
		of("ok: over 0 ok 0", descriptor("q1"), descriptor("q2")),
		of("over: over 0 over 0", descriptor("q1"), descriptor("q2")),
		of("ok: ok 1", descriptor("leaky")), of("ok: ok 0", descriptor("leaky")), of("over: over 0", descriptor("leaky")),
	)
}

// TestLooks: no hits charge nothing, and tell whether one would pass.
func TestLooks(t *testing.T) {
	walk(t, serve(t, Options{}, limits),
		of("ok: ok 3", hits(0, descriptor("three"))),
		of("ok: ok 0", hits(3, descriptor("three"))),
		of("over: over 0", hits(0, descriptor("three"))),
		of("over: over 0 ok 5", hits(0, descriptor("three")), descriptor("five")), // and nothing is charged beside it
		of("ok: ok 0 ok 0", hits(5, descriptor("five")), hits(0, descriptor("five"))),
	)
}

// TestNegativeHitsAreGivenBack: the reference charges them (fault 8).
func TestNegativeHitsAreGivenBack(t *testing.T) {
	for _, asReference := range []bool{false, true} {
		walk(t, serve(t, Options{AsReference: asReference}, limits),
			of("ok: ok 0", hits(3, descriptor("three"))),
			of("ok: ok 2", refund(2, descriptor("three"))),
			of("ok: ok 3", refund(math.MaxUint64, descriptor("three"))),
			of("ok: ok 2", descriptor("three")),
		)
	}
	walk(t, serve(t, Options{}, limits),
		of("ok: ok 4 ok 0", descriptor("five"), hits(3, descriptor("three"))),
		of("over: ok 4 over 0", refund(1, descriptor("five")), descriptor("three")), // a denied request gives nothing back
	)
}

// TestHugeHitsDoNoHarm: in the reference 2^63-1 hits turn each later answer of the window into an error, and 2^64-3 give three back (fault 8).
func TestHugeHitsDoNoHarm(t *testing.T) {
	for _, asReference := range []bool{false, true} {
		for _, huge := range []uint64{math.MaxInt64, math.MaxUint64 - 2, math.MaxUint64, 1 << 53, 1 << 32} {
			s := serve(t, Options{AsReference: asReference}, limits)
			if first := ask(t, s, hits(huge, descriptor("three"))); first.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
				t.Errorf("%d hits pass", huge)
			}
			want := "ok: ok 2"
			if asReference {
				want = "over: over 0"
			}
			walk(t, s, of(want, descriptor("three")), of("ok: ok 4", descriptor("five")))
		}
	}
}

// TestShadowsDenyNothing: limits in shadow mode are counted and told.
func TestShadowsDenyNothing(t *testing.T) {
	walk(t, serve(t, Options{}, limits),
		of("ok: ok 0 ok 2", descriptor("shadow"), descriptor("three")),
		of("ok: ok 0 ok 1", descriptor("shadow"), descriptor("three")),
	)
	// With SHADOW_MODE=true all requests pass, and the statuses tell which descriptors are over.
	walk(t, serve(t, Options{Shadow: true}, limits), of("ok: over 0", descriptor("banned")))
}

// TestQuotasDenyTogether: a request passes as long as one of its quotas has room, and is charged to each that has.
func TestQuotasDenyTogether(t *testing.T) {
	walk(t, serve(t, Options{}, limits),
		of("ok: ok 0 ok 1", descriptor("q1"), descriptor("q2")),
		of("ok: over 0 ok 0", descriptor("q1"), descriptor("q2")),
		of("over: over 0 over 0", descriptor("q1"), descriptor("q2")),
		of("over: over 0", descriptor("q1")),
	)
	walk(t, serve(t, Options{}, limits), // a shadow beside them is charged once
		of("ok: ok 8 ok 0 ok 1", descriptor("watched"), descriptor("q1"), descriptor("q2")),
		of("ok: ok 7 over 0 ok 0", descriptor("watched"), descriptor("q1"), descriptor("q2")),
		of("ok: ok 6", descriptor("watched")),
	)
	walk(t, serve(t, Options{}, limits), // a plain limit denies whatever quotas have left, and they are not charged then
		of("over: ok 1 over 0", descriptor("q1"), descriptor("banned")),
		of("ok: ok 0", descriptor("q1")),
		of("over: over 0 ok 2 over 0", descriptor("q1"), descriptor("q2"), descriptor("banned")),
	)
	walk(t, serve(t, Options{Quota: true}, limits), of("ok: over 0 ok 2", descriptor("banned"), descriptor("three")))
}

// TestOverrides: a request brings limits of its own. In the reference a unit that is unset or unknown ends the process (fault 1).
func TestOverrides(t *testing.T) {
	s := serve(t, Options{}, limits)
	walk(t, s,
		of("ok: ok 1", bring(2, typev3.RateLimitUnit_DAY, descriptor("three"))),
		of("ok: ok 0", bring(2, typev3.RateLimitUnit_DAY, descriptor("three"))),
		of("over: over 0", bring(2, typev3.RateLimitUnit_DAY, descriptor("three"))),
		of("ok: ok 1", bring(2, typev3.RateLimitUnit_HOUR, descriptor("any"))),
		of("ok: ok 0", bring(1, typev3.RateLimitUnit_HOUR, descriptor("shadow"))),
		of("over: over 0", bring(1, typev3.RateLimitUnit_HOUR, descriptor("shadow"))), // it is no shadow
	)
	for _, unit := range []typev3.RateLimitUnit{typev3.RateLimitUnit_UNKNOWN, 99, -1} {
		for _, asReference := range []bool{false, true} {
			s := serve(t, Options{AsReference: asReference}, limits)
			_, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
				Domain: "d", Descriptors: []*common.RateLimitDescriptor{bring(1, unit, descriptor("three"))},
			})
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("the unit %v: %v", unit, err)
			}
			walk(t, s, of("ok: ok 2", descriptor("three")))
		}
	}
	response, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{ // an unknown domain has no limits, also none of a request
		Domain: "e", Descriptors: []*common.RateLimitDescriptor{bring(0, typev3.RateLimitUnit_DAY, descriptor("three"))},
	})
	if err != nil || short(response) != "ok: ok" {
		t.Errorf("an unknown domain: %v, %v", response, err)
	}
}

// TestKeysAreApart: in the reference these share a counter (faults 2 and 7).
func TestKeysAreApart(t *testing.T) {
	s := serve(t, Options{}, `
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: x_k, rate_limit: {unit: minute, requests_per_unit: 1}}
`)
	walk(t, s, of("ok: ok 0", descriptor("a=b_c")), of("ok: ok 0", descriptor("a_b=c")), of("ok: ok 0", descriptor("x_k=1")))
	s.Use(configure(t, "domain: d_x\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]"))
	response, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d_x", Descriptors: []*common.RateLimitDescriptor{descriptor("k=1")}})
	if err != nil || short(response) != "ok: ok 0" {
		t.Errorf("%v, %v", response, err)
	}
}

// TestReloadKeepsUsage: other numbers count on.
func TestReloadKeepsUsage(t *testing.T) {
	s := serve(t, Options{}, limits)
	walk(t, s, of("ok: ok 1", hits(2, descriptor("three"))))
	s.Use(configure(t, strings.ReplaceAll(limits, "requests_per_unit: 3", "requests_per_unit: 30")))
	walk(t, s, of("ok: ok 27", descriptor("three")))
}

// TestAnswersTellTheWindow: the limit, its name and the time until it begins anew.
func TestAnswersTellTheWindow(t *testing.T) {
	s := serve(t, Options{Headers: [3]string{"X-Limit", "X-Left", "X-Reset"}}, limits)
	r := ask(t, s, descriptor("five"), descriptor("three"), descriptor("free"))
	one := r.GetStatuses()[1]
	limit := one.GetCurrentLimit()
	if limit.GetName() != "three" || limit.GetRequestsPerUnit() != 3 || limit.GetUnit() != pb.RateLimitResponse_RateLimit_MINUTE ||
		one.GetDurationUntilReset().AsDuration() != 45*time.Second {
		t.Errorf("%v", one)
	}
	if free := r.GetStatuses()[2]; free.GetLimitRemaining() != math.MaxUint32 || free.GetCurrentLimit() != nil {
		t.Errorf("%v", free)
	}
	fields := func(r *pb.RateLimitResponse) (all []string) {
		for _, h := range r.GetResponseHeadersToAdd() {
			all = append(all, h.GetKey()+": "+h.GetValue())
		}
		return all
	}
	if got, want := fields(r), []string{"X-Limit: 3", "X-Left: 2", "X-Reset: 45"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := fields(ask(t, s, descriptor("three"), descriptor("banned"))), []string{"X-Limit: 0", "X-Left: 0", "X-Reset: 45"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	ask(t, s, hits(2, descriptor("three")))                                                           // it is used up
	for limit, two := range map[string][]string{"0": {"three", "banned"}, "3": {"banned", "three"}} { // of several that are over, the last one
		want := []string{"X-Limit: " + limit, "X-Left: 0", "X-Reset: 45"}
		if got := fields(ask(t, s, descriptor("five"), descriptor(two[0]), descriptor(two[1]), descriptor("five"))); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", two, got, want)
		}
	}
	if got := fields(ask(t, s, descriptor("free"))); got != nil {
		t.Errorf("%v", got)
	}
	leaky := ask(t, s, hits(2, descriptor("leaky")))
	over := ask(t, s, descriptor("leaky"))
	if a, b := leaky.GetStatuses()[0].GetDurationUntilReset().GetSeconds(), over.GetStatuses()[0].GetDurationUntilReset().GetSeconds(); a != 20 || b != 10 {
		t.Errorf("the bucket is empty in %ds and has room for the next in %ds, want 20 and 10", a, b)
	}
}

// TestMetadataSurvives: the reference loses it under detailed_metric and value_to_metric (fault 6).
func TestMetadataSurvives(t *testing.T) {
	s := serve(t, Options{Metadata: true}, `
domain: d
descriptors:
  - {key: a, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {m: {x: 1}, only: a}}
  - {key: b, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 9}, metadata: {m: {x: 2, z: [z]}}}
`)
	request := &pb.RateLimitRequest{Domain: "d", HitsAddend: 1, Descriptors: []*common.RateLimitDescriptor{
		descriptor("a=1"), bring(7, typev3.RateLimitUnit_DAY, hits(2, descriptor("c=1", "d=2"))), descriptor("b=1"),
	}}
	response, err := s.ShouldRateLimit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"domain": "d", "hitsAddend": 1.0, "metadata": map[string]any{"m": map[string]any{"x": 1.0, "z": []any{"z"}}, "only": "a"},
		"descriptors": []any{
			map[string]any{"entries": []any{"a=1"}},
			map[string]any{"entries": []any{"c=1", "d=2"}, "limit": "requests_per_unit:7 unit:DAY", "hitsAddend": 2.0},
			map[string]any{"entries": []any{"b=1"}},
		},
	}
	if got := response.GetDynamicMetadata().AsMap(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	response, err = s.ShouldRateLimit(t.Context(), request) // a is over, so its metadata is left out
	got, _ := response.GetDynamicMetadata().AsMap()["metadata"].(map[string]any)
	if err != nil || !reflect.DeepEqual(got, map[string]any{"m": map[string]any{"x": 2.0, "z": []any{"z"}}}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRequestsThatMakeNoSense are errors of theirs alone.
func TestRequestsThatMakeNoSense(t *testing.T) {
	s := serve(t, Options{}, limits)
	one := []*common.RateLimitDescriptor{descriptor("three")}
	many := make([]*common.RateLimitDescriptor, mostDescriptors+1)
	for _, test := range []struct {
		want    codes.Code
		request *pb.RateLimitRequest
	}{
		{codes.Unknown, nil},
		{codes.Unknown, &pb.RateLimitRequest{Descriptors: one}},
		{codes.Unknown, &pb.RateLimitRequest{Domain: "d"}},
		{codes.InvalidArgument, &pb.RateLimitRequest{Domain: "d", Descriptors: many}},
		{codes.OK, &pb.RateLimitRequest{Domain: "d", Descriptors: many[1:]}},
		{codes.OK, &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{}}}},
	} {
		if _, err := s.ShouldRateLimit(t.Context(), test.request); status.Code(err) != test.want {
			t.Errorf("%v: %v, want %v", test.request, err, test.want)
		}
	}
	if _, err := New(core.New(core.NewMemory()), Options{}).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: one}); status.Code(err) != codes.Unknown {
		t.Errorf("without a configuration: %v", err)
	}
}

// broken is a store that fails or panics.
type broken struct {
	core.Store

	err error
}

func (b broken) Decide(context.Context, []core.Call) (int, error) {
	if b.err == nil {
		panic("the store is broken")
	}
	return 0, b.err
}

// TestAPanicIsOneError of one request.
func TestAPanicIsOneError(t *testing.T) {
	s := serveOn(t, broken{Store: core.NewMemory()}, Options{Logger: slog.New(slog.DiscardHandler)}, limits)
	for range 2 {
		if _, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("three")}}); status.Code(err) != codes.Internal {
			t.Errorf("%v", err)
		}
	}
	walk(t, s, of("ok: ok", descriptor("free")))
}

// TestWithoutAStore: the error mode says what happens while the store cannot answer.
func TestWithoutAStore(t *testing.T) {
	gone := broken{core.NewMemory(), errors.New("gone")}
	all := []*common.RateLimitDescriptor{descriptor("three"), descriptor("unknown"), descriptor("shadow")}
	if _, err := serveOn(t, gone, Options{}, limits).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: all}); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	walk(t, serveOn(t, gone, Options{OnError: Open}, limits), of("ok: ok"+" ok"+" ok", all...))
	walk(t, serveOn(t, gone, Options{OnError: Closed}, limits), of("over: over ok"+" ok", all...), of("ok: ok"+" ok", all[1:]...))
}

// hanging is a store that does not answer before its caller gives up.
type hanging struct{ core.Store }

func (hanging) Decide(ctx context.Context, _ []core.Call) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestAStoreThatHangsHoldsNoCaller: in the reference it does for the whole deadline of the caller (fault 9).
func TestAStoreThatHangsHoldsNoCaller(t *testing.T) {
	s := serveOn(t, hanging{core.NewMemory()}, Options{Timeout: 20 * time.Millisecond}, limits) // the caller has no deadline
	if _, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("three")}}); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

// TestJSON asks over HTTP.
func TestJSON(t *testing.T) {
	s := serve(t, Options{}, limits)
	for _, test := range []struct {
		code       int
		body, want string
	}{
		{200, `{"domain": "d", "descriptors": [{"entries": [{"key": "q1"}]}]}`, `"overallCode":"OK"`},
		{429, `{"domain": "d", "descriptors": [{"entries": [{"key": "q1"}]}]}`, `"overallCode":"OVER_LIMIT"`},
		{400, `{"domain": "d"}`, "must not be empty"},
		{400, `{"domain": "d", "descriptors": [{"limit": {"requests_per_unit": 1}}]}`, "unit"},
		{400, `{`, "Bad Request"},
		{400, `{"nonsense": 1}`, "Bad Request"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(test.body)))
		if text := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != test.code || !strings.Contains(text, strings.ReplaceAll(test.want, " ", "")) {
			t.Errorf("%s: %d %s, want %d with %q", test.body, w.Code, w.Body, test.code, test.want)
		}
	}
	w := httptest.NewRecorder()
	serveOn(t, broken{core.NewMemory(), io.EOF}, Options{}, limits).ServeHTTP(w,
		httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain": "d", "descriptors": [{"entries": [{"key": "q1"}]}]}`)))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("without a store the answer is %d", w.Code)
	}
}

// TestOnRedis walks the same way on a real server, in both ways of counting, and looks at what stays: counters of a second live for seconds, and
// those of the reference up to 301 (fault 5).
func TestOnRedis(t *testing.T) {
	// KEYS looks at all keys that other tests have left.
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	for _, asReference := range []bool{false, true} {
		name := fmt.Sprintf("%s%v", redistest.Prefix(t), asReference)
		store := core.NewRedis(client, core.WithPrefix(name), core.WithBudget(time.Minute))
		s := serveOn(t, store, Options{AsReference: asReference}, `
domain: d
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1000}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: leaky, rate_limit: {unit: day, requests_per_unit: 2, algorithm: leaky}}
`)
		walk(t, s,
			of("ok: ok 1 ok 0", descriptor("year"), hits(2, descriptor("leaky"))),
			of("ok: ok 2", refund(1, descriptor("year"))),
			of("ok: ok 0", hits(2, descriptor("year"))),
			of("over: over 0", descriptor("year")),
		)
		ask(t, s, descriptor("second"))
		keys, err := client.Keys(t.Context(), "*"+name+"*second*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("%v, %v", keys, err)
		}
		if left := client.PTTL(t.Context(), keys[0]).Val(); left > 10*time.Second {
			t.Errorf("a counter of a second lives %v", left)
		}
	}
}

// TestADenialCostsNothing draws requests, and wants those that are denied to have changed nothing, and those that pass to be charged exactly.
func TestADenialCostsNothing(t *testing.T) {
	keys := []string{"three", "five", "banned", "q1", "q2", "leaky", "free", "unknown"}
	rapid.Check(t, func(draw *rapid.T) {
		s := serve(t, Options{}, limits)
		left := func() map[string]uint32 {
			all := make(map[string]uint32)
			for _, key := range keys {
				all[key] = ask(t, s, hits(0, descriptor(key))).GetStatuses()[0].GetLimitRemaining()
			}
			return all
		}
		for range rapid.IntRange(1, 8).Draw(draw, "requests") {
			before := left()
			charged := make(map[string]uint32)
			var all []*common.RateLimitDescriptor
			names := rapid.SliceOfN(rapid.SampledFrom(keys), 1, 4).Draw(draw, "keys")
			costs := rapid.SliceOfN(rapid.Uint64Range(0, 3), len(names), len(names)).Draw(draw, "hits")
			for i, name := range names {
				all = append(all, hits(costs[i], descriptor(name)))
			}
			r := ask(t, s, all...)
			if r.GetOverallCode() == pb.RateLimitResponse_OK {
				for i, one := range r.GetStatuses() {
					if one.GetCode() == pb.RateLimitResponse_OK && one.GetCurrentLimit() != nil {
						charged[names[i]] += uint32(costs[i])
					}
				}
			}
			after := left()
			for _, key := range keys {
				if before[key]-charged[key] != after[key] {
					draw.Fatalf("%v of %v: %s; %s had %d left, and has %d", costs, names, short(r), key, before[key], after[key])
				}
			}
		}
	})
}
