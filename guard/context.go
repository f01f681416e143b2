package guard

import (
	"context"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// requestContext is the knowledge of one Guard about one request, and the context of that
// request from then on. Those of the limiters in front are behind it. It does not
// change once the request has been decided about.
//
// A request that meets a Guard takes one allocation for it: there is room in it for the outcome of a plain request, and for the
// values of its fields. Parts that few requests need are elsewhere.
type requestContext struct {
	context.Context //nolint:containedctx // it is one, on top of the request's own

	guard   *generation
	given   *http.Request // to Decide
	matched keyfuncs.Matched
	outer   *requestContext // of the limiters in front of the same request, or nil
	parent  *requestContext // the nearest one outside, maybe of another request, or nil
	isOwn   bool            // the handler of the parent's request serves this one
	// shared is the next limiter inside that has not charged a check again.
	shared atomic.Pointer[requestContext]
	// denied is the status of a denial further inside that was answered as another one, or 0.
	denied atomic.Int32
	// outcomes are those of all limiters so far, the outermost first. It is nil until
	// the call is answered.
	outcomes []Outcome
	// reservation may have to be settled; or nil.
	reservation *reservation
	body        *keyBody                   // as the functions of policies and lists have read it; nil: it was not bounded
	leastCosts  atomic.Pointer[leastCosts] // that limiters further inside want; nil: none
	form        *multipart.Form            // its files are removed when the request ends; or nil
	ownProxy    *mistakes.OwnProxy         // while the key of a ban is read
	routeTold   *string                    // the route that the key functions were told, or nil
	spent       atomic.Int64               // that Spend was told; of the outermost limiter alone
	readsKeys   bool                       // the functions of policies and lists are being called
	asksRoute   bool                       // one of them has asked for the route
	valuesSet   bool                       // the request has the path values that are known, or needs none
	goesOn      bool                       // it is not the limiter that answers the request

	plainOutcome [1]Outcome
	fields       [2]string
}

// newContext returns the context of a request that meets a generation.
func (g *generation) newContext(r *http.Request, matched keyfuncs.Matched) *requestContext {
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched, readsKeys: true}
	if parent, ok := rc.Context.Value(requestContextKey{}).(*requestContext); ok {
		rc.enclose(parent, r)
	}
	return rc
}

type requestContextKey struct{}

// Value is that of the context, with the knowledge of the Guard.
func (rc *requestContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, given.LimiterKey:
		return rc
	case given.MatchedKey:
		if rc.readsKeys { // others may ask later, and at the same time
			rc.asksRoute = true
		}
		if rc.matched != nil {
			return rc.matched
		}
	case given.OwnProxyKey:
		if rc.ownProxy != nil && rc.ownProxy.Watches() {
			return rc.ownProxy
		}
		return nil
	case frameworkKey:
		if rc.matched != nil {
			return rc.matched
		}
	}
	return rc.Context.Value(key)
}

// SetPathValues has functions of the program find the path values that the framework's router knows, or the mux
// that is limited, where functions of this module find them. A value that the request has already stays.
func (rc *requestContext) SetPathValues(r *http.Request) {
	if rc.valuesSet {
		return
	}
	rc.valuesSet = true
	matched := rc.matched
	if matched == nil {
		if matched = given.MatchedFrom(rc.Context); matched == nil {
			return
		}
	}
	for route := matched.Route(); ; {
		_, rest, found := strings.Cut(route, "{")
		if !found {
			return
		}
		var name string
		name, route, _ = strings.Cut(rest, "}")
		if name = strings.TrimSuffix(name, "..."); name == "" {
			name = "*" // as echo and chi call it
		}
		if r.PathValue(name) != "" {
			continue
		}
		if value := matched.PathValue(name); value != "" {
			r.SetPathValue(name, value)
		}
	}
}

// keysRead notices that the functions of the policies have said all about a request. Others, which may ask at the same
// time, change nothing.
func (rc *requestContext) keysRead(r *http.Request) {
	rc.valuesSet, rc.readsKeys = true, false
	if rc.asksRoute {
		rc.routeTold = rc.guard.placement.KeysRead(r)
	}
}

// watchOwnProxy remembers the answer of [keyfuncs.IP] about the address of the request.
func (rc *requestContext) watchOwnProxy() {
	if rc.ownProxy == nil {
		rc.ownProxy = new(mistakes.OwnProxy)
	}
	rc.ownProxy.Watch()
}

// FoundNoKey warns of a key function of the program.
func (rc *requestContext) FoundNoKey(ctx context.Context, function given.Function, requests int) {
	rc.guard.placement.FoundNoKey(ctx, function, requests)
}

// String keeps keys out of the text of a printed context.
func (rc *requestContext) String() string { return "ratelimit.requestContext" }

func requestContextFrom(ctx context.Context) *requestContext {
	rc, _ := ctx.Value(requestContextKey{}).(*requestContext)
	return rc.known()
}

// frameworkKey is the key of the Matched of [Guard.Decide]. Unlike
// [given.MatchedKey], it does not ask for the route.
type frameworkKey struct{}

// With returns a function of a request for a [Policy], such as LimitFor, Cost or Skip, that
// asks the [keyfuncs.Matched] that the adapter has given to [Guard.Decide], of
// type M. Adapters make their own With of it, which gives f the framework's context.
//
// Where there is no such M, because another adapter serves the request or because the
// request has ended, the result is the zero T. With panics if f is nil.
func With[M, T any](f func(M) T) func(*http.Request) T {
	if f == nil {
		panic("ratelimit: With: the function is nil")
	}
	return func(r *http.Request) (result T) {
		if m, ok := r.Context().Value(frameworkKey{}).(M); ok {
			return f(m)
		}
		return result
	}
}

// own returns the outcomes that the request context's own Guard has decided.
func (rc *requestContext) own() []Outcome {
	if rc.outer == nil {
		return rc.outcomes
	}
	return rc.outcomes[len(rc.outer.outcomes):]
}

// setOutcomes sets the outcomes: those of the limiters in front, and these. Policies
// that are reported together get different names.
func (rc *requestContext) setOutcomes(c *call, decisions []core.Decision) {
	var into []Outcome
	if rc.outer != nil {
		into = slices.Clone(rc.outer.outcomes)
	}
	into = slices.Grow(into, len(c.Checks))
	rc.outcomes = outcomes(c, decisions, into)
	for i := len(rc.outcomes) - len(c.Checks); i < len(rc.outcomes); i++ {
		if o := &rc.outcomes[i]; !o.Shadow && !o.Condition && reports(rc.outcomes[:i], o.Policy) {
			o.Policy = dialect.DistinctName(o.Policy, func(name string) bool { return reports(rc.outcomes[:i], name) })
		}
	}
}

// reports says whether the client is told of a policy of some name. Header fields
// compare names without regard to case.
func reports(outcomes []Outcome, name string) bool {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow && !o.Condition && strings.EqualFold(o.Policy, name) {
			return true
		}
	}
	return false
}

// charged finds the outcome of a limiter in front that has charged the same check for this
// request: its request context, and the index among its own outcomes. It returns
// nil if there is none.
func (rc *requestContext) charged(check *core.Check) (outer *requestContext, index int) {
	inside := rc
	for rc = inside.outer; rc != nil; rc = rc.outer {
		if rc.guard.limiter != inside.guard.limiter {
			continue
		}
		own := rc.own()
		for i := range own {
			o := &own[i]
			same := o.Key == check.Key && o.Shadow == check.Shadow && o.Decision.Limit.Identity() == check.Limit.Identity()
			if same && o.Cost > 0 && !o.Condition && !o.Decision.Waived && inside.share() {
				return rc, i
			}
		}
	}
	return nil, 0
}

// write writes the limits' headers. Their values may take the given room, which belongs to the header from then on.
func (rc *requestContext) write(h http.Header, room *[2]string) {
	g := rc.guard
	if g.plain != nil && rc.outer == nil && len(rc.outcomes) == 1 {
		switch o := &rc.outcomes[0]; {
		case o.Decision.Degraded:
		case g.lone != nil:
			g.lone.WriteLone(h, &o.Decision, room)
		default:
			g.writer.Write(h, []headers.Outcome{o.described()})
		}
		return
	}
	if policies := reported(rc.outcomes, make([]headers.Outcome, 0, len(rc.outcomes))); len(policies) > 0 {
		g.writer.Write(h, policies)
	}
}

// detached returns a request that can be looked at when it has ended. A framework uses its
// own context for another request then, so only the route is kept of the adapter's knowledge.
func detached(r *http.Request) *http.Request {
	return r.WithContext(&endedContext{Context: r.Context(), route: endedRoute(mistakes.RouteOf(r))}) //nolint:contextcheck // it is made of the request's
}

// endedContext is the context of a request that has ended.
type endedContext struct {
	context.Context //nolint:containedctx // it is one

	route endedRoute
}

// Value hides the Matched of the adapter.
func (c *endedContext) Value(key any) any {
	switch key.(type) {
	case given.MatchedKey, frameworkKey:
		return c.route
	}
	return c.Context.Value(key)
}

// endedRoute is the route of a request that has ended, as far as it was known.
type endedRoute string

func (r endedRoute) Route() string         { return string(r) }
func (endedRoute) PathValue(string) string { return "" }

// AsOwn returns a context for a request that a handler makes and serves itself, such as one of a batch, out of the
// context of the request that it serves. Limiters decide about such a request as about any other, and charge it by itself.
// [OutcomesFrom], [Spend], [Grow], [Settle] and [PermitFrom] know nothing of the handler's own request there, nor do
// key functions know its route. Deadline and values of the program's own stay.
//
//	for _, part := range batch {
//		own, err := http.NewRequestWithContext(guard.AsOwn(r.Context()), part.Method, part.Path, part.Body)
//		...
//		own.RemoteAddr = r.RemoteAddr // for limits by address
//		router.ServeHTTP(recorder, own)
//	}
//
// Without AsOwn, a request that was made anew is still charged by itself, unless it was read from text, as by [http.ReadRequest], with the
// target of the handler's own request: use AsOwn for those. A copy of the handler's request cannot be told
// from that request on its way through middleware: the first copy that meets a limit again is charged nothing there, and
// each further one is charged. The units that a request of its own spends are counted for it if a limiter of its own settles, and
// otherwise for the request of the handler.
func AsOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

// ownContext is the context of a request of its own.
type ownContext struct {
	context.Context //nolint:containedctx // it is one
}

// Value hides the knowledge of the request that the context comes from.
func (c *ownContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, given.MatchedKey, frameworkKey:
		return nil
	}
	return c.Context.Value(key)
}

// enclose finds the limiters in front of the same request, of which the parent is the nearest. A request of its own, which a
// handler behind those limiters serves, has none.
func (rc *requestContext) enclose(parent *requestContext, r *http.Request) {
	rc.parent = parent
	rc.outer = parent.known()
	if rc.outer != nil && (!same(rc.outer.given, r) || !rc.isOnly()) {
		rc.outer, rc.isOwn = nil, true
	}
}

// known returns the request context, or the nearest one outside for the same request, that has outcomes.
func (rc *requestContext) known() *requestContext {
	for ; rc != nil && rc.outcomes == nil; rc = rc.parent {
		if rc.isOwn {
			return nil
		}
	}
	return rc
}

// enclosing returns the knowledge of the outer request if its handler serves this one as its own, or nil.
func (rc *requestContext) enclosing() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc.parent.known()
}

// isOnly reports whether no other copy of the request has shared a charge of the limiters in front.
func (rc *requestContext) isOnly() bool {
	for outer := rc.parent; outer != nil; outer = outer.parent {
		if first := outer.shared.Load(); first != nil && !rc.isWithin(first) {
			return false
		}
		if outer.isOwn { // the next one is of another request
			break
		}
	}
	return true
}

// share reports whether the limiter may leave a check uncharged that one in front has charged. That is for one copy of the
// request, and for all limiters that it meets.
func (rc *requestContext) share() bool {
	return rc.parent.shared.CompareAndSwap(nil, rc) || rc.parent.shared.Load() == rc
}

// isWithin reports whether a limiter is another one, or stands inside of it.
func (rc *requestContext) isWithin(other *requestContext) bool {
	for ; rc != nil; rc = rc.parent {
		if rc == other {
			return true
		}
	}
	return false
}

// same reports whether a request may be a copy of another one. Middleware that copies a request, strips its prefix or limits
// its body leaves the target that the client has sent, and a request that was made anew has another one, or none.
func same(given, r *http.Request) bool {
	switch {
	case given.URL == r.URL:
		return true
	case given.RequestURI != "" || r.RequestURI != "":
		return given.RequestURI == r.RequestURI
	case reflect.ValueOf(given.Header).Pointer() == reflect.ValueOf(r.Header).Pointer():
		return true
	}
	return given.Method == r.Method && given.Host == r.Host && given.URL != nil && r.URL != nil && given.URL.String() == r.URL.String()
}

// A handler behind a limiter has a copy of the request that the server has made. The fields that it sets there have to be set where the
// server and outer middleware look for them: net/http removes the temporary files of the form in its own request alone.

// shareTrailer makes the trailer of a request one that its copies share: net/http writes an unannounced trailer to
// its own request alone, when the body has been read.
func shareTrailer(r *http.Request) {
	if r.Trailer == nil && r.ContentLength < 0 && hasBody(r) {
		r.Trailer = make(http.Header)
	}
}

// tellGiven sets the forms and the trailer of a copy on the request that was given to Decide, unless it has its own.
func (rc *requestContext) tellGiven(r *http.Request) {
	given := rc.given
	if given == r {
		return
	}
	if given.Form == nil {
		given.Form = r.Form
	}
	if given.PostForm == nil {
		given.PostForm = r.PostForm
	}
	if given.Trailer == nil {
		given.Trailer = r.Trailer
	}
	if form := r.MultipartForm; form != nil && given.MultipartForm == nil {
		given.MultipartForm, rc.form = form, form
	}
}

// removeForm removes the temporary files of the form when the request ends. The server does that, too, unless
// outer middleware has made a copy of its request. It is called when no handler needs them any more: the context may end
// while one runs.
func (rc *requestContext) removeForm() {
	if form := rc.form; form != nil {
		rc.form = nil
		context.AfterFunc(rc.Context, func() { _ = form.RemoveAll() })
	}
}

// OutcomesFrom returns the outcomes of the limiters in front of a handler for
// its request, the outermost first. It takes the context of the request. The
// result is nil if no limiter has decided, or if the store could not answer; it must not
// be changed.
func OutcomesFrom(ctx context.Context) []Outcome {
	if rc := requestContextFrom(ctx); rc != nil {
		return rc.outcomes
	}
	return nil
}

// PermitFrom returns the places that a request holds under [core.Concurrent] limits. It takes the context of the
// request. Its [core.Permit.Context] ends when this process can no longer be sure that it holds them, and
// its [core.Permit.Token] keeps a resource safe from a holder that has lost them without knowing. A handler that is
// done early may release it. Otherwise the places are given back when the handler has returned.
//
// The result is nil if no place is held: no policy has such a limit, or the store could not answer. Where limiters
// stand inside one another, it is that of the innermost one that holds a place.
func PermitFrom(ctx context.Context) *core.Permit {
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.outer {
		if rc.reservation != nil && rc.reservation.places.permit != nil {
			return rc.reservation.places.permit
		}
	}
	return nil
}

// outcomes appends the outcomes of a call.
func outcomes(c *call, decisions []core.Decision, into []Outcome) []Outcome {
	for i := range c.Checks {
		check, t := &c.Checks[i], &c.Terms[i]
		into = append(into, Outcome{
			Policy: t.Name, Key: check.Key, Unit: t.Unit, Cost: check.Cost,
			Shadow: check.Shadow, Condition: check.Mode == core.Condition, Decision: decisions[i],
		})
	}
	return into
}

// reserving returns the reservation of a request, to be added to.
func (rc *requestContext) reserving() *reservation {
	if rc.reservation == nil {
		rc.reservation = new(reservation)
	}
	return rc.reservation
}

// settles reports whether there is something to settle when the request has been served.
func (rc *requestContext) settles() bool {
	return rc.reservation != nil && (rc.reservation.settles() || len(rc.reservation.outside) > 0)
}

// waited returns how long the request has waited for places.
func (rc *requestContext) waited() time.Duration {
	if rc.reservation == nil {
		return 0
	}
	return rc.reservation.waited
}

// holdsPlaces reports whether there may be places to give back.
func (rc *requestContext) holdsPlaces() bool {
	return rc.reservation != nil && rc.reservation.holdsPlaces()
}

// outermost returns the knowledge of the outermost limiter that has decided about the request.
func (rc *requestContext) outermost() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc
}

// costAtLeast has a charged check cost so much at the least, and returns how much has to
// be charged now: nothing if the check is still to be settled.
func (rc *requestContext) costAtLeast(index, cost int) (more int) {
	own, v, least := rc.own(), rc.reservation, rc.leastCostsOf()
	least.mu.Lock()
	defer least.mu.Unlock()
	if least.costs == nil {
		least.costs = make([]int, len(own))
	}
	later := !least.settled && v != nil && v.settles() && v.reserves(index, len(own))
	charged := least.costs[index]
	if !later && !least.settled {
		charged = max(charged, own[index].Cost)
	}
	least.costs[index] = max(least.costs[index], cost)
	if later {
		return 0
	}
	return max(0, cost-charged)
}

// leastCostsOf returns the least costs of the outcomes, to be raised.
func (rc *requestContext) leastCostsOf() *leastCosts {
	if least := rc.leastCosts.Load(); least != nil {
		return least
	}
	rc.leastCosts.CompareAndSwap(nil, new(leastCosts))
	return rc.leastCosts.Load()
}

// reserve remembers the reservation of a call that this process has decided by itself.
func (rc *requestContext) reserve(local reserved) {
	if local.Reservation != nil && local.remembered() {
		rc.reserving().local = local
	}
}
