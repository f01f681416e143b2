package telemetry

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/ratelimit/core"
)

// servers are the servers that have been met.
type servers struct {
	most   int // addresses that are told
	mu     sync.RWMutex
	known  map[string]*server
	others *server // all servers beyond mostKnown
}

// mostKnown bounds the number of servers with states of their own.
const mostKnown = 1000

// server has the parts of measurements about a server, made once. Even if servers are not told apart, each has its own,
// for its state.
type server struct {
	attributes []attribute.KeyValue // its address, if that is told
	measured   []metric.RecordOption
	nameless   bool // it stands for several, and has no state

	mu    sync.Mutex
	state string
	since time.Time // it has been in that state
}

// forgotten is after how long a store may have forgotten the breaker of a server that it
// does not ask, and begin with a new one.
const forgotten = time.Minute

// of returns a server, which is counted when it is met for the first time: asked.
func (s *servers) of(ctx context.Context, count metric.Int64UpDownCounter, address string) *server {
	s.mu.RLock()
	found := s.known[address]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known[address] != nil:
		return s.known[address]
	case len(s.known) >= mostKnown:
		if s.others == nil {
			s.others = newServer(nil, s.most > 0)
			s.others.nameless = true
		}
		return s.others
	}
	var attributes []attribute.KeyValue
	if len(s.known) < s.most {
		attributes = addressOf(address)
	}
	added := newServer(attributes, s.most > 0)
	if s.known == nil {
		s.known = make(map[string]*server)
	}
	s.known[address] = added
	added.turn(ctx, count, "closed")
	return added
}

func newServer(attributes []attribute.KeyValue, told bool) *server {
	if told && attributes == nil {
		attributes = []attribute.KeyValue{serverAddress.String(other)}
	}
	return &server{attributes: attributes, measured: recorded(attributes...)}
}

// addressOf returns the attributes of an address: a host and a port, or a socket's path.
func addressOf(address string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []attribute.KeyValue{serverAddress.String(address)}
	}
	attributes := []attribute.KeyValue{serverAddress.String(host)}
	if number, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, serverPort.Int(number))
	}
	return attributes
}

// turn counts a server under another state.
func (s *server) turn(ctx context.Context, count metric.Int64UpDownCounter, state string) {
	if s.nameless {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == state {
		return
	}
	if s.state == "" { // so that each state has a number from the beginning
		for _, other := range [...]string{"closed", "half-open", "open"} {
			count.Add(ctx, 0, s.in(other)...)
		}
	} else {
		count.Add(ctx, -1, s.in(s.state)...)
	}
	count.Add(ctx, 1, s.in(state)...)
	s.state, s.since = state, time.Now()
}

// answered counts a server as asked that has been silent for long, and answers again.
func (s *server) answered(ctx context.Context, count metric.Int64UpDownCounter) {
	s.mu.Lock()
	back := s.state == "open" && time.Since(s.since) > forgotten
	s.mu.Unlock()
	if back {
		s.turn(ctx, count, "closed")
	}
}

func (s *server) in(state string) []metric.AddOption {
	return added(append(slices.Clone(s.attributes), breakerState.String(state))...)
}

// sent returns the options of the duration of a batch.
func (s *server) sent(failure core.Failure) []metric.RecordOption {
	if failure == "" {
		return s.measured
	}
	return recorded(withFailure(failure, slices.Clone(s.attributes)...)...)
}
