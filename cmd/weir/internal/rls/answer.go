package rls

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
)

// answer returns the answer to a request that the store has answered.
func (s *Service) answer(request *pb.RateLimitRequest, all []question, denied bool) *pb.RateLimitResponse {
	response := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(all))}
	if denied && !s.options.Shadow {
		response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	for i := range all {
		response.Statuses[i] = all[i].status()
	}
	if q := tightest(all); q != nil && s.options.Headers[0] != "" {
		for i, value := range []uint64{uint64(q.limit.RequestsPerUnit), uint64(q.left()), uint64(wholeSeconds(q.reset))} {
			response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &corev3.HeaderValue{
				Key: s.options.Headers[i], Value: strconv.FormatUint(value, 10),
			})
		}
	}
	if s.options.Metadata {
		response.DynamicMetadata = dynamicMetadata(request, all)
	}
	return response
}

// status returns the answer for one descriptor.
func (q *question) status() *pb.RateLimitResponse_DescriptorStatus {
	answer := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	switch {
	case q.limit == nil:
	case q.limit.Unlimited:
		answer.LimitRemaining = math.MaxUint32
	default:
		answer.CurrentLimit = &pb.RateLimitResponse_RateLimit{
			RequestsPerUnit: q.limit.RequestsPerUnit, Unit: units[q.limit.Unit], Name: q.limit.Name,
		}
		answer.LimitRemaining = q.left()
		answer.DurationUntilReset = &durationpb.Duration{Seconds: wholeSeconds(q.reset)}
		if q.over && !q.limit.Shadow {
			answer.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	return answer
}

func (q *question) left() uint32 { return uint32(min(max(0, q.remaining), math.MaxUint32)) }

var units = map[descriptors.Unit]pb.RateLimitResponse_RateLimit_Unit{
	descriptors.Second: pb.RateLimitResponse_RateLimit_SECOND, descriptors.Minute: pb.RateLimitResponse_RateLimit_MINUTE,
	descriptors.Hour: pb.RateLimitResponse_RateLimit_HOUR, descriptors.Day: pb.RateLimitResponse_RateLimit_DAY,
	descriptors.Week: pb.RateLimitResponse_RateLimit_WEEK, descriptors.Month: pb.RateLimitResponse_RateLimit_MONTH,
	descriptors.Year: pb.RateLimitResponse_RateLimit_YEAR,
}

// wholeSeconds rounds up: whoever comes back then does not come too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// tightest returns the question that the header fields are about: the last one whose limit denies the request by itself, as in the reference, or else the first
// one with the fewest units left.
func tightest(all []question) (found *question) {
	for i := range slices.Backward(all) {
		if q := &all[i]; q.counted() && q.over && !q.limit.Shadow && !q.quota {
			return q
		}
	}
	for i := range all {
		if q := &all[i]; q.counted() && (found == nil || q.left() < found.left()) {
			found = q
		}
	}
	return found
}

// dynamicMetadata returns what the proxy may hand on: the request, and the metadata of the limits that were not over.
func dynamicMetadata(request *pb.RateLimitRequest, all []question) *structpb.Struct {
	list := make([]*structpb.Value, len(request.GetDescriptors()))
	for i, d := range request.GetDescriptors() {
		list[i] = structpb.NewStructValue(describe(d))
	}
	fields := map[string]*structpb.Value{
		"domain": structpb.NewStringValue(request.GetDomain()), "descriptors": structpb.NewListValue(&structpb.ListValue{Values: list}),
	}
	if hits := request.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	merged := make(map[string]any)
	for i := range all {
		if q := &all[i]; q.counted() && (!q.over || q.limit.Shadow) {
			merge(merged, q.limit.Metadata)
		}
	}
	if len(merged) > 0 {
		if own, err := structpb.NewStruct(merged); err == nil { // it came from a file that was checked
			fields["metadata"] = structpb.NewStructValue(own)
		}
	}
	return &structpb.Struct{Fields: fields}
}

// merge adds what is not there yet. Mappings are merged, too.
func merge(to, from map[string]any) {
	for key, value := range from {
		inner, isMapping := value.(map[string]any)
		switch there, exists := to[key]; {
		case !exists && isMapping:
			own := make(map[string]any)
			merge(own, inner)
			to[key] = own
		case !exists:
			to[key] = value
		default:
			if below, both := there.(map[string]any); both && isMapping {
				merge(below, inner)
			}
		}
	}
}

// describe puts a descriptor into metadata.
func describe(d *common.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if own := d.GetLimit(); own != nil {
		text := "requests_per_unit:" + strconv.FormatUint(uint64(own.GetRequestsPerUnit()), 10) + " unit:" + own.GetUnit().String()
		fields["limit"] = structpb.NewStringValue(text)
	}
	if hits := d.GetHitsAddend(); hits != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

// mostJSON is how many bytes a request in JSON may have.
const mostJSON = 1 << 20

// ServeHTTP answers a request in JSON: with 200, 429 if it is over a limit, 400 if it makes no sense, and 500 if it cannot be answered.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostJSON))
	var request pb.RateLimitRequest
	if err == nil {
		err = protojson.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	response, err := s.ShouldRateLimit(r.Context(), &request)
	if err != nil {
		code := http.StatusBadRequest
		if c := status.Code(err); c != codes.InvalidArgument && c != codes.Unknown {
			code = http.StatusInternalServerError
		}
		http.Error(w, status.Convert(err).Message(), code)
		return
	}
	text, err := protojson.Marshal(response)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}
