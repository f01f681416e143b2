// Package xdstest has a control plane for tests: the xDS server of go-control-plane.
package xdstest

import (
	"context"
	"net"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
)

// Node is the name of the client for which a control plane has limits.
const Node = "node"

// Server is a control plane.
type Server struct {
	// Address is where it listens, also after it was stopped and started again.
	Address string

	t       testing.TB
	options []grpc.ServerOption
	stop    func()

	mu       sync.Mutex
	cache    cache.SnapshotCache
	requests []*discovery.DiscoveryRequest
}

// New returns a control plane that does not run yet. Its address is free.
func New(t testing.TB, options ...grpc.ServerOption) *Server {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	s := &Server{t: t, options: options, Address: listener.Addr().String(), stop: func() {}}
	_ = listener.Close()
	t.Cleanup(func() { s.stop() })
	return s
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// Start starts it. It knows no limits, whatever it knew before.
func (s *Server) Start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.cache = cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	s.mu.Unlock()
	server := grpc.NewServer(s.options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(server, xds.NewServer(ctx, s.cache, xds.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, request)
			return nil
		},
	}))
	listener := listen(s.t, s.Address)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	s.stop = func() {
		cancel()
		server.Stop()
		running.Wait()
		s.stop = func() {}
	}
}

// Stop stops it. Its connections break.
func (s *Server) Stop() { s.stop() }

// Set sends other limits.
func (s *Server) Set(version string, all ...*config.RateLimitConfig) {
	s.t.Helper()
	resources := make([]types.Resource, len(all))
	for i, one := range all {
		resources[i] = one
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cache.SetSnapshot(s.t.Context(), Node, snapshot); err != nil {
		s.t.Fatal(err)
	}
}

// Requests returns all that clients have sent.
func (s *Server) Requests() []*discovery.DiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*discovery.DiscoveryRequest(nil), s.requests...)
}

// Refused returns the reasons for which clients have refused limits.
func (s *Server) Refused() (reasons []string) {
	for _, one := range s.Requests() {
		if one.GetErrorDetail() != nil {
			reasons = append(reasons, one.GetErrorDetail().GetMessage())
		}
	}
	return reasons
}

// Limit returns the limits of a domain: requests of a day with a key.
func Limit(domain, key string, requests uint32) *config.RateLimitConfig {
	return &config.RateLimitConfig{
		Name: domain, Domain: domain, Descriptors: []*config.RateLimitDescriptor{{
			Key: key, RateLimit: &config.RateLimitPolicy{Unit: config.RateLimitUnit_DAY, RequestsPerUnit: requests},
		}},
	}
}
