package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// policies are the policies that have been met, as far as they are told apart.
type policies struct {
	most  int
	known atomic.Pointer[map[identity]*policy]
	full  atomic.Bool // there are as many as are told apart
	mu    sync.Mutex  // held to add one
}

// identity identifies a policy.
type identity struct{ name, algorithm string }

// policy has the parts of measurements about a policy, made once.
type policy struct {
	name, algorithm attribute.KeyValue

	shapes, bans, places bool // of the kind of the limit
	decided              [outcomes][]metric.AddOption
	counted              []metric.AddOption
	measured             []metric.RecordOption
	waits                [outcomes][]metric.RecordOption // without a failure
}

func newPolicy(id identity, limit core.Limit) *policy {
	p := &policy{name: policyName.String(id.name), algorithm: algorithmKey.String(id.algorithm)}
	switch limit.(type) {
	case core.Places:
		p.places = true
	case core.Bans:
		p.bans = true
	default:
		p.shapes = unexported.TraitsOf(limit).Delays
	}
	for i := range outcomes {
		p.decided[i] = added(p.name, p.algorithm, outcome(i).attribute())
		p.waits[i] = recorded(p.name, p.algorithm, outcome(i).attribute())
	}
	p.counted, p.measured = added(p.name, p.algorithm), recorded(p.name, p.algorithm)
	return p
}

// of returns the policy of a name, or that of all others.
func (s *policies) of(name string, limit core.Limit) *policy {
	id := identity{name: name}
	if limit != nil {
		id.algorithm = limit.Algorithm()
	}
	if p := s.find(id); p != nil {
		return p
	}
	if name == "" || s.full.Load() {
		id.name = other
		if p := s.find(id); p != nil {
			return p
		}
	}
	return s.add(id, limit)
}

func (s *policies) find(id identity) *policy {
	if known := s.known.Load(); known != nil {
		return (*known)[id]
	}
	return nil
}

// add adds the policy of a limit, if there is room, and returns it.
func (s *policies) add(id identity, limit core.Limit) *policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full.Load() {
		id.name = other
	}
	if p := s.find(id); p != nil { // in the meantime
		return p
	}
	id.name = strings.Clone(id.name)
	p := newPolicy(id, limit)
	more := map[identity]*policy{id: p}
	if known := s.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	s.known.Store(&more)
	apart := 0
	for id := range more {
		if id.name != other {
			apart++
		}
	}
	s.full.Store(apart >= s.most)
	return p
}

// failed returns the options of a decision that the store had no part in.
func (p *policy) failed(what outcome, failure core.Failure, mode guard.ErrorMode) []metric.AddOption {
	attributes := withFailure(failure, p.name, p.algorithm, what.attribute())
	if name := modes[mode]; name != "" {
		attributes = append(attributes, errorMode.String(name))
	}
	return added(attributes...)
}

// waited returns the options of a wait.
func (p *policy) waited(how about) []metric.RecordOption {
	if how.failure == "" {
		return p.waits[how.outcome]
	}
	return recorded(withFailure(how.failure, p.name, p.algorithm, how.outcome.attribute())...)
}

// settled returns the options of a settlement.
func (p *policy) settled(where string, failure core.Failure) []metric.RecordOption {
	return recorded(withFailure(failure, p.name, p.algorithm, direction.String(where))...)
}
