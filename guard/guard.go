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

// Guard is the engine behind the middleware of every framework. It finds the keys of a
// request, asks all its policies in one call, and says whether the request may go on. An
// adapter for another framework puts the [Verdict] into the framework's idiom:
//
//	verdict := g.Decide(r, nil)
//	verdict.WriteHeader(w.Header())
//	if verdict.Denial != nil {
//		verdict.Denial.ServeHTTP(w, verdict.Request)
//		return
//	}
//	verdict.Serve(w, func(w http.ResponseWriter, r *http.Request) int {
//		next.ServeHTTP(w, r)
//		return 0 // or the status of an error that the framework is going to answer
//	})
//
// A Guard may be used by many goroutines at once.
type Guard struct {
	limiter   *core.Limiter
	options   Options
	policies  []Policy
	names     []string // what the policies are called, or "" if that depends on the request
	fields    []string // that options.Headers may write
	writer    headers.Writer
	fallback  *fallback.Fallback // nil: no policy asks for it
	log       *eventLog
	placement *mistakes.Placement
	capacity  *capacity // nil: the policies decide
	asks      bool      // functions of the program other than keys
	// readsBodies says that functions of the program may read the body of a request.
	readsBodies bool

	union      bool // of sets that a request meets by several readings of its path
	unreadable bool // no policy is known for the requests of this Guard: they are denied
}

// New returns a Guard that has the limiter decide about all policies of a request
// together. It talks to nobody.
//
// It returns the reason as an error if the limiter is nil, if there is no policy, if one
// has an invalid limit, or both or neither of Limit and LimitFor, if two have one name,
// and if a mode, a number or a unit makes no sense.
func New(limiter *core.Limiter, options Options, policies ...Policy) (*Guard, error) {
	return replace(nil, limiter, options, policies)
}

// replace returns a new Guard that goes on from what an old one knows, which may be nil.
func replace(old *Guard, limiter *core.Limiter, options Options, policies []Policy) (*Guard, error) {
	if limiter == nil {
		return nil, errors.New("ratelimit: the limiter is nil")
	}
	if err := checkNames(policies); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return build(old, limiter, options, policies)
}

// build is replace for policies that may have one name.
func build(old *Guard, limiter *core.Limiter, options Options, policies []Policy) (*Guard, error) {
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
	if old == nil { // what takes the place of a limit is not beside it
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
		policies[i].By = keyfuncs.FirstOf(policies[i].By) // which prepares requests for a function of the program
	}
	if options.Lists.By != nil {
		options.Lists.By = keyfuncs.FirstOf(options.Lists.By)
	}
	g := &Guard{
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

// inherit takes over what an old Guard knows of the store, where that is the same one, and
// of what it has logged.
func (g *Guard) inherit(old *Guard) {
	if g.limiter == old.limiter && g.options.replicas() == old.options.replicas() {
		g.fallback = old.fallback
	}
	if g.options.Logger == old.options.Logger {
		g.log = old.log
		g.placement.Inherit(old.placement)
	}
}

// Must returns what [New] or [NewHandle] has returned, and panics with the message of the
// error if there is one. It is for programs and adapters that build a Guard when they start:
//
//	g := guard.Must(guard.New(limiter, guard.Options{}, policies...))
func Must[T *Guard | *Handle](built T, err error) T {
	if err != nil {
		panic(err.Error())
	}
	return built
}

// described returns the policies as a client is told of them that meets this Guard
// alone, and all of its policies.
func (g *Guard) described() []headers.Policy {
	var described []headers.Policy
	for i := range g.policies {
		if p := &g.policies[i]; !p.Shadow && !p.bans() && p.Limit != core.Unlimited {
			described = append(described, headers.Policy{Name: g.names[i], Unit: p.unitOf(p.Limit), Decision: core.Decision{Limit: p.Limit}})
		}
	}
	return described
}

// names returns what policies are called in headers: the names of their limits,
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
