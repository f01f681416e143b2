package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/fallback"
	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// newGeneration returns a generation that goes on from the knowledge of an old one, which may be nil.
func newGeneration(old *generation, limiter *core.Limiter, options Options, policies []Policy) (*generation, error) {
	if limiter == nil {
		return nil, errors.New("ratelimit: the limiter is nil")
	}
	if err := checkNames(policies); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return buildGeneration(old, limiter, options, policies)
}

// buildGeneration is newGeneration for policies of which several may have one name.
func buildGeneration(old *generation, limiter *core.Limiter, options Options, policies []Policy) (*generation, error) {
	policies, err := withBans(policies)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	fallsBack, err := fallsBack(options, policies)
	if err := errors.Join(options.check(), checkPolicies(policies), err); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	if options.Headers == nil {
		options.Headers = headers.Draft
	}
	if options.OnError == unsaid {
		options.OnError = FailOpen
	}
	if options.OnOverload == unsaid {
		options.OnOverload = FailClosed
	}
	if old == nil { // else the new limit takes the place of the old one, and does not stand beside it
		mistakes.WarnOfEqual(limiter, options.Logger, unnamedByPeer(policies))
	}
	placement := mistakes.NewPlacement(options.Logger, peerOf(&options, policies))
	readsBodies := readsBodies(&options, policies)
	if options.Lists.Address == nil {
		options.Lists.Address = keyfuncs.Address()
	}
	for i := range policies {
		if policies[i].By == nil {
			policies[i].By = keyfuncs.RemoteIP
		}
		policies[i].By = keyfuncs.Or(policies[i].By) // which prepares requests for a function of the program
	}
	if options.Lists.By != nil {
		options.Lists.By = keyfuncs.Or(options.Lists.By)
	}
	g := &generation{
		limiter:   limiter,
		options:   options,
		policies:  policies,
		names:     names(policies),
		fields:    headers.Names(options.Headers),
		log:       &eventLog{logger: options.Logger},
		placement: placement,
		asks:      slices.ContainsFunc(policies, func(p Policy) bool { return p.asksProgram() }),

		readsBodies: readsBodies,
	}
	g.writer = dialect.Prepare(options.Headers, g.described())
	g.lone, _ = g.writer.(dialect.Lone)
	g.plain = g.findPlain()
	if old != nil {
		g.inherit(old)
	}
	if ban := loneBan(policies); ban >= 0 {
		g.placement.LoneBan(g.names[ban])
	}
	if !fallsBack {
		g.fallback = nil
	} else if g.fallback == nil {
		g.fallback = fallback.New(options.replicas(), remembered)
	}
	return g, nil
}

// inherit takes over the fallback of an old generation, if the store is the same one, and
// its log.
func (g *generation) inherit(old *generation) {
	if g.limiter == old.limiter && g.options.replicas() == old.options.replicas() {
		g.fallback = old.fallback
	}
	if g.options.Logger == old.options.Logger {
		g.log = old.log
		g.placement.Inherit(old.placement)
	}
}

// described returns the policies as a client is told of them that meets this middleware
// alone, and all of its policies.
func (g *generation) described() []headers.Outcome {
	var described []headers.Outcome
	for i := range g.policies {
		if p := &g.policies[i]; !p.Shadow && !p.bans() && p.Limit != core.Unlimited {
			described = append(described, headers.Outcome{Name: g.names[i], Unit: p.unitOf(p.kind), Decision: core.Decision{Limit: p.Limit}})
		}
	}
	return described
}

// names returns the names of policies in headers: those of their limits,
// with numbers where they would be the same. A policy has the same name in every
// response. So has an alternative that is one limit with a policy beside it.
func names(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		if p := &policies[i]; p.LimitFor == nil && !p.Shadow {
			names[i] = dialect.DistinctName(p.Limit.Name(), func(name string) bool {
				for j, other := range names[:i] {
					shared := p.Limit == policies[j].Limit && (hasAlternatives(policies, i) || hasAlternatives(policies, j))
					if !shared && strings.EqualFold(other, name) {
						return true
					}
				}
				return false
			})
		}
	}
	return names
}

// remembered is how many keys the Fallback mode knows the last state of.
const remembered = 100_000

// readsBodies reports whether functions of the program look at requests, so that they may read a body.
func readsBodies(o *Options, policies []Policy) bool {
	if o.Lists.By != nil || o.Lists.Address != nil {
		return true
	}
	for i := range policies {
		if p := &policies[i]; p.By != nil || p.LimitFor != nil || p.Cost != nil || p.Headroom != nil || p.Skip != nil || p.Share != nil {
			return true
		}
	}
	return false
}

// unnamedByPeer returns the limits of policies that count for each other wherever they stand: those by the
// default key, without a name.
func unnamedByPeer(policies []Policy) []mistakes.Limit {
	var limits []mistakes.Limit
	for i := range policies {
		if p := &policies[i]; p.By == nil && p.LimitFor == nil && !named(p.Limit) && p.Limit != core.Unlimited {
			limits = append(limits, mistakes.Limit{Limit: p.Limit, Shadow: p.Shadow})
		}
	}
	return limits
}

// peerOf returns the uses of the TCP peer: as the key of a policy that names none, and as the address
// that is looked up in lists that name none.
func peerOf(o *Options, policies []Policy) mistakes.Peer {
	peer := mistakes.Peer{Lists: o.Lists.used() && o.Lists.Address == nil}
	for i := range policies {
		if p := &policies[i]; p.By == nil {
			peer.Counts, peer.Policy = true, p.Limit.Name()
			break
		}
	}
	return peer
}

// loneBan returns the first ban by response, if no policy beside it limits the requests in progress, or else -1. Whether the
// two have one key cannot be known of functions. A LimitFor may choose such a limit.
func loneBan(policies []Policy) int {
	for i := range policies {
		if p := &policies[i]; !p.Shadow && !hasAlternatives(policies, i) && (p.LimitFor != nil || p.kind.Places) {
			return -1
		}
	}
	return slices.IndexFunc(policies, func(p Policy) bool { return p.strikesByResponse() })
}
