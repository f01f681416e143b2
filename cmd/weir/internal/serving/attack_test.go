package serving

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// attackedLimits are those that hostile requests are about: many is never used up, and two is left alone by all of them.
const attackedLimits = `
domain: d
descriptors:
  - {key: two, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: many, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: few, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: "star*", value: "*a*b*c*", rate_limit: {unit: year, requests_per_unit: 1000000}}
`

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// descriptor returns a descriptor of entries: keys and values by turns.
func descriptor(entries ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

// changed returns a descriptor after a change.
func changed(d *common.RateLimitDescriptor, change func(*common.RateLimitDescriptor)) *common.RateLimitDescriptor {
	change(d)
	return d
}

// repeated returns a descriptor several times.
func repeated(n int, d *common.RateLimitDescriptor) []*common.RateLimitDescriptor {
	all := make([]*common.RateLimitDescriptor, n)
	for i := range all {
		all[i] = d
	}
	return all
}

// attacked starts a service that hostile requests are sent to.
func attacked(t *testing.T, change func(*Settings)) *running {
	t.Helper()
	file, url := write(t, t.TempDir(), "limits.yaml", attackedLimits), redistest.Start(t).URL()
	return start(t, func(s *Settings) {
		s.Config, s.Store.URL, s.Rules.Metadata = file, url, true
		change(s)
	})
}

// leftOf returns how many units a key has left, and charges nothing.
func leftOf(t *testing.T, connection *grpc.ClientConn, key string) int {
	t.Helper()
	look := changed(descriptor(key, ""), func(d *common.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(0) })
	response, err := pb.NewRateLimitServiceClient(connection).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{look},
	})
	if err != nil {
		t.Fatal(err)
	}
	return int(response.GetStatuses()[0].GetLimitRemaining())
}

// Hostile requests are answered, each with an error of its own at most, and are charged as they say, or not at all.
func TestHostileRequests(t *testing.T) {
	r := attacked(t, func(*Settings) {})
	connection := r.connect(t)
	hits := func(n uint64, negative bool) func(*common.RateLimitDescriptor) {
		return func(d *common.RateLimitDescriptor) { d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(n), negative }
	}
	override := func(n uint32, unit typev3.RateLimitUnit) func(*common.RateLimitDescriptor) {
		return func(d *common.RateLimitDescriptor) {
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		}
	}
	list := func(all ...*common.RateLimitDescriptor) []*common.RateLimitDescriptor { return all }
	two, many := descriptor("two", ""), descriptor("many", "")
	const (
		ok   = pb.RateLimitResponse_OK
		over = pb.RateLimitResponse_OVER_LIMIT
	)
	for _, c := range []struct {
		what    string
		all     []*common.RateLimitDescriptor
		code    codes.Code
		overall pb.RateLimitResponse_Code
		charged int // to the limit many
	}{
		{"257 descriptors", repeated(257, many), codes.InvalidArgument, 0, 0},
		{"256 times the same", repeated(256, many), codes.OK, ok, 256},
		{"a descriptor without entries", list(many, descriptor()), codes.OK, ok, 1},
		{"entries without keys", list(many, descriptor("", "", "", "x")), codes.OK, ok, 1},
		{"a key with zeros and line ends", list(many, descriptor("\x00\r\n", "{}\x00")), codes.OK, ok, 1},
		{"10,000 entries", list(many, descriptor(make([]string, 20_000)...)), codes.OK, ok, 1},
		{"the longest value", list(descriptor("many", strings.Repeat("v", mostMessage-100))), codes.OK, ok, 0},
		{"a message of more", list(descriptor("many", strings.Repeat("v", mostMessage))), codes.ResourceExhausted, 0, 0},
		{"a value for stars", list(many, descriptor("star", strings.Repeat("ab", 1<<16)+"c")), codes.OK, ok, 1},
		{"a value that matches no star", list(many, descriptor("star", strings.Repeat("ab", 1<<16))), codes.OK, ok, 1},
		{"all hits there are", list(many, changed(descriptor("two", ""), hits(math.MaxUint64, false))), codes.OK, over, 0},
		{"half of them", list(many, changed(descriptor("two", ""), hits(math.MaxInt64+1, false))), codes.OK, over, 0},
		{"hits that become none together", list(changed(descriptor("many", ""), hits(1<<63, false)), changed(descriptor("many", ""), hits(1<<63, false))), codes.OK, over, 0},
		{"all hits are given back", list(changed(descriptor("two", ""), hits(math.MaxUint64, true))), codes.OK, ok, 0},
		{"given back and charged", list(changed(descriptor("two", ""), hits(math.MaxUint64, true)), many), codes.OK, ok, 1},
		{"a limit without a unit", list(many, changed(descriptor("own", ""), override(1, typev3.RateLimitUnit_UNKNOWN))), codes.InvalidArgument, 0, 0},
		{"a unit that there is not", list(many, changed(descriptor("own", ""), override(1, 99))), codes.InvalidArgument, 0, 0},
		{"a negative unit", list(many, changed(descriptor("own", ""), override(1, math.MinInt32))), codes.InvalidArgument, 0, 0},
		{"a limit of none", list(many, changed(descriptor("own", ""), override(0, typev3.RateLimitUnit_YEAR))), codes.OK, over, 0},
		{"the largest limit", list(many, changed(descriptor("own", ""), override(math.MaxUint32, typev3.RateLimitUnit_YEAR))), codes.OK, ok, 1},
		{"the largest limit of a second", list(many, changed(descriptor("own", ""), override(math.MaxUint32, typev3.RateLimitUnit_SECOND))), codes.OK, ok, 1},
		{"an own limit for the key of another", list(changed(descriptor("two", ""), override(1_000_000, typev3.RateLimitUnit_MONTH)), many), codes.OK, ok, 1},
		{"no entries and an own limit", list(changed(descriptor(), override(5, typev3.RateLimitUnit_YEAR)), many), codes.OK, ok, 1},
		{"nothing", nil, codes.Unknown, 0, 0},
	} {
		before := leftOf(t, connection, "many")
		response, err := pb.NewRateLimitServiceClient(connection).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: c.all})
		if status.Code(err) != c.code || response.GetOverallCode() != c.overall {
			t.Errorf("%s: %v, %.200v, want %v, %v", c.what, response.GetOverallCode(), err, c.code, c.overall)
		}
		if err == nil && len(response.GetStatuses()) != len(c.all) {
			t.Errorf("%s: %d answers for %d descriptors", c.what, len(response.GetStatuses()), len(c.all))
		}
		if charged := before - leftOf(t, connection, "many"); charged != c.charged {
			t.Errorf("%s: %d are charged, want %d", c.what, charged, c.charged)
		}
		if left := leftOf(t, connection, "two"); left != 2 {
			t.Fatalf("%s: it is charged to another limit, which has %d left", c.what, left)
		}
	}
	whole, err := proto.Marshal(&pb.RateLimitRequest{Domain: "d", Descriptors: list(two, descriptor("MARK", "VALU"))})
	if err != nil {
		t.Fatal(err)
	}
	before := leftOf(t, connection, "many")
	for what, message := range map[string][]byte{
		"a key that is no text":   bytes.Replace(whole, []byte("MARK"), []byte("\xff\xfe\xfd\xfc"), 1),
		"a value that is no text": bytes.Replace(whole, []byte("VALU"), []byte("\xc0\x80\xed\xa0"), 1),
		"half a message":          whole[:len(whole)/2],
		"no message":              bytes.Repeat([]byte{0xff}, 1000),
		"groups in groups":        bytes.Repeat([]byte{0x0b}, 100_000),
		"a length without an end": {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		response := &pb.RateLimitResponse{}
		err := connection.Invoke(t.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, message, response, grpc.ForceCodecV2(rawCodec{}))
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left := leftOf(t, connection, "two"); left != 2 || leftOf(t, connection, "many") != before {
		t.Errorf("messages that make no sense are charged: %d left", left)
	}
	if r.log.has("panic") {
		t.Errorf("a request has panicked: %s", r.log.text.String())
	}
}

// Requests whose callers leave are charged once at most, and those that were answered are charged once.
func TestCancelledRequestsAreChargedOnceAtMost(t *testing.T) {
	r := attacked(t, func(*Settings) {})
	connection := r.connect(t)
	var sent, answered atomic.Int64
	var all sync.WaitGroup
	for caller := range 64 {
		all.Go(func() {
			for i := range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 0 {
					cancel() // before it is sent
				} else {
					go func() {
						for range (caller + i) % 50 {
							runtime.Gosched()
						}
						cancel()
					}()
				}
				sent.Add(1)
				_, err := pb.NewRateLimitServiceClient(connection).ShouldRateLimit(ctx, &pb.RateLimitRequest{
					Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("many", "")},
				})
				cancel()
				switch status.Code(err) {
				case codes.OK:
					answered.Add(1)
				case codes.Canceled:
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	for range 10 { // what was begun is over when these are answered, or is charged later: never more than was sent
		if used := 1_000_000 - leftOf(t, connection, "many"); int64(used) < answered.Load() || int64(used) > sent.Load() {
			t.Fatalf("%d are charged: %d were answered, and %d were sent", used, answered.Load(), sent.Load())
		}
	}
}

// A request that does not arrive whole is given up, so that nobody fills the memory with halves of requests.
func TestHalfARequestIsGivenUp(t *testing.T) {
	r := attacked(t, func(s *Settings) { s.arrival = 20 * time.Millisecond })
	connection := r.connect(t)
	streams := make([]grpc.ClientStream, 100)
	for i := range streams {
		var err error
		streams[i], err = connection.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, pb.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range streams { // without an end of it, the test hangs
		if err := stream.RecvMsg(&pb.RateLimitResponse{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	}
}

// A connection has few streams that nobody answers, and so few bytes of requests that are not whole: the client waits with the others.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	if most := mostStreams * mostMessage; most > 64<<20 {
		t.Errorf("a connection may leave %d bytes of requests that are not whole", most)
	}
	r := attacked(t, func(*Settings) {})
	connection := r.connect(t)
	quota := grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	for range mostStreams {
		if _, err := connection.NewStream(t.Context(), &quota, quotapb.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := connection.NewStream(ctx, &quota, quotapb.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one stream more: %v, want it to wait", err)
	}
	if left := leftOf(t, r.connect(t), "many"); left != 1_000_000 {
		t.Errorf("another client has %d left", left)
	}
}
