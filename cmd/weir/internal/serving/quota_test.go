package serving

import (
	"strings"
	"testing"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// quota reports that a bucket of a key was used, and returns what it is assigned.
func quota(t *testing.T, connection *grpc.ClientConn, key string) (*quotapb.RateLimitQuotaResponse, error) {
	t.Helper()
	stream, err := quotapb.NewRateLimitQuotaServiceClient(connection).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&quotapb.RateLimitQuotaUsageReports{Domain: "d", BucketQuotaUsages: []*quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage{
		{BucketId: &quotapb.BucketId{Bucket: map[string]string{key: ""}}, NumRequestsAllowed: 1},
	}}) // Recv tells what is wrong
	return stream.Recv()
}

// TestShadowMode: in shadow mode requests pass, and buckets are assigned all, also where nothing is left.
func TestShadowMode(t *testing.T) {
	r := start(t, func(s *Settings) {
		s.Config, s.Rules.Shadow = write(t, t.TempDir(), "limits.yaml", strings.Replace(limits, "requests_per_unit: 2", "requests_per_unit: 0", 1)), true
	})
	connection := r.connect(t)
	if code, _, err := ask(t, connection, "two"); code != pb.RateLimitResponse_OK || err != nil {
		t.Errorf("a request is answered %v, %v", code, err)
	}
	response, err := quota(t, connection, "two")
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range response.GetBucketAction() {
		strategy := action.GetQuotaAssignmentAction().GetRateLimitStrategy()
		if _, blanket := strategy.GetStrategy().(*typev3.RateLimitStrategy_BlanketRule_); !blanket || strategy.GetBlanketRule() != typev3.RateLimitStrategy_ALLOW_ALL {
			t.Errorf("a bucket is assigned %v", strategy)
		}
	}
	if len(response.GetBucketAction()) != 1 {
		t.Errorf("one bucket is answered by %v", response)
	}
}

// TestNoQuotasBesideTheReference: who counts as the reference does assigns no quotas. They would be charged to other counters than requests, and a client that
// uses both would pass twice as often.
func TestNoQuotasBesideTheReference(t *testing.T) {
	for asReference, want := range map[bool]codes.Code{false: codes.OK, true: codes.Unimplemented} {
		r := start(t, func(s *Settings) { s.Rules.AsReference = asReference })
		connection := r.connect(t)
		if _, err := quota(t, connection, "two"); status.Code(err) != want {
			t.Errorf("as the reference: %t: a report is answered %v, want %v", asReference, err, want)
		}
		health := healthpb.NewHealthClient(connection)
		service := quotapb.RateLimitQuotaService_ServiceDesc.ServiceName
		if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); (err != nil) != asReference {
			t.Errorf("as the reference: %t: the health of the quotas is %v", asReference, err)
		}
	}
}
