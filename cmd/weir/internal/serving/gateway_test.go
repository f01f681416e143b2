package serving

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/xds/xdstest"
)

// gatewayFiles returns what Envoy Gateway makes of its test configurations, by the names of the files.
func gatewayFiles(t *testing.T) map[string][]byte {
	t.Helper()
	file, err := os.Open("testdata/envoy-gateway.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		text, unread := io.ReadAll(archive)
		if err := errors.Join(err, unread); err != nil {
			t.Fatal(err)
		}
		files[header.Name] = text
	}
}

// gatewayLimits reads a file of limits, and returns the messages that Envoy Gateway sends. The published messages have none of the three fields that are
// left out, and these are false in all files.
func gatewayLimits(t *testing.T, text []byte) (all []*config.RateLimitConfig) {
	t.Helper()
	if bytes.Contains(text, []byte("quota_mode: true")) || bytes.Contains(text, []byte("value_to_metric: true")) || bytes.Contains(text, []byte("share_threshold: true")) {
		t.Fatal("a field is true that the messages lack")
	}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		var asJSON []byte
		if err == nil {
			asJSON, err = json.Marshal(document)
		}
		one := new(config.RateLimitConfig)
		if err == nil {
			err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(asJSON, one)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// gatewayDescriptors returns the descriptors that Envoy makes for a request by the actions of a route, by their domains. What an action takes from the
// request is "of the request".
func gatewayDescriptors(t *testing.T, text []byte) map[string][]*common.RateLimitDescriptor {
	t.Helper()
	all := make(map[string][]*common.RateLimitDescriptor)
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var route struct {
			Limits map[string][]struct {
				Actions []struct {
					Of map[string]struct {
						Key   string `yaml:"descriptor_key"`
						Value string `yaml:"descriptor_value"`
					} `yaml:"ActionSpecifier"`
				} `yaml:"actions"`
			} `yaml:"rateLimitsByDomain"`
		}
		if err := documents.Decode(&route); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		for domain, limits := range route.Limits {
			for _, limit := range limits {
				d := new(common.RateLimitDescriptor)
				for _, action := range limit.Actions {
					for _, of := range action.Of {
						e := &common.RateLimitDescriptor_Entry{Key: of.Key, Value: of.Value}
						if e.GetValue() == "" || strings.Contains(e.GetValue(), "%") {
							e.Value = "of the request"
						}
						d.Entries = append(d.Entries, e)
					}
				}
				all[domain] = append(all[domain], d)
			}
		}
	}
}

// meant returns the descriptor of the messages that one of a request is about.
func meant(all []*config.RateLimitDescriptor, entries []*common.RateLimitDescriptor_Entry) (found *config.RateLimitDescriptor) {
	for _, e := range entries {
		found = nil
		for _, d := range all {
			if d.GetKey() == e.GetKey() && (d.GetValue() == e.GetValue() || d.GetValue() == "" && found == nil) {
				found = d
			}
		}
		all = found.GetDescriptors()
	}
	return found
}

// TestEnvoyGateway takes all limits that Envoy Gateway makes of its test configurations from go-control-plane's xDS server, and answers the descriptors that
// its routes make of requests: each by its limit.
func TestEnvoyGateway(t *testing.T) {
	files := gatewayFiles(t)
	configurations := 0
	for _, file := range slices.Sorted(maps.Keys(files)) {
		name, isLimits := strings.CutSuffix(file, ".yaml")
		if strings.HasSuffix(name, ".routes") || !isLimits {
			continue
		}
		configurations++
		t.Run(name, func(t *testing.T) {
			serveGateway(t, gatewayLimits(t, files[file]), gatewayDescriptors(t, files[name+".routes.yaml"]))
		})
	}
	if configurations != 26 {
		t.Errorf("%d configurations", configurations)
	}
}

// serveGateway sends limits to a service, and asks it about descriptors of their domains.
func serveGateway(t *testing.T, limits []*config.RateLimitConfig, descriptors map[string][]*common.RateLimitDescriptor) {
	t.Helper()
	server := xdstest.New(t)
	server.Start()
	server.Set("1", limits...)
	client := pb.NewRateLimitServiceClient(start(t, by(server)).connect(t))
	if refused := server.Refused(); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	for _, one := range limits {
		asked := make(map[string]bool)
		for _, d := range descriptors[one.GetDomain()] {
			of := meant(one.GetDescriptors(), d.GetEntries())
			n := uint64(of.GetRateLimit().GetRequestsPerUnit())
			if n == 0 {
				t.Fatalf("%v has no limit", d)
			}
			if asked[d.String()] { // by another route
				continue
			}
			asked[d.String()] = true
			for _, hits := range []uint64{n, n + 1} {
				d.HitsAddend = wrapperspb.UInt64(hits)
				response, err := client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: one.GetDomain(), Descriptors: []*common.RateLimitDescriptor{d}})
				if err != nil {
					t.Fatal(err)
				}
				over, limit := hits > n && !of.GetShadowMode(), response.GetStatuses()[0].GetCurrentLimit()
				if got := response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT; got != over || uint64(limit.GetRequestsPerUnit()) != n ||
					limit.GetUnit().String() != of.GetRateLimit().GetUnit().String() {
					t.Errorf("%v: %v, want the limit %v, over it: %t", d, response, of.GetRateLimit(), over)
				}
			}
		}
		if len(asked) == 0 {
			t.Errorf("no route asks about the domain %s", one.GetDomain())
		}
	}
}
