package policies

import (
	"errors"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// policy returns a policy of a document as policies of package guard: several if it has alternatives, or is enforced for
// some keys only.
func (c *compiler) policy(p *Policy) []guard.Policy {
	before := len(c.errors)
	var all []guard.Policy
	switch {
	case said(p.Limit != "", p.Ban != "", len(p.FirstOf) > 0) > 1:
		c.errors.addf(p.at.of(""), "it says more than one of limit, ban and firstOf: make several policies of it")
	case len(p.FirstOf) > 0:
		all = c.alternatives(p)
	default:
		all = []guard.Policy{c.single(p)}
	}
	for i := range all {
		all[i].Shadow = p.Shadow
		all[i].OnError = c.mode(p)
	}
	if len(c.errors) > before {
		return nil
	}
	if p.Enforced != 0 {
		if all = c.enforced(p, all); all == nil {
			return nil
		}
	}
	if err := makeSense(all); err != nil {
		c.errors.addf(p.at.of(""), "%s", trimmed(err))
	}
	return all
}

func said(each ...bool) (n int) {
	for _, one := range each {
		if one {
			n++
		}
	}
	return n
}

// alternatives returns the policies of which the first that has room is charged.
func (c *compiler) alternatives(p *Policy) []guard.Policy {
	if p.Enforced != 0 {
		c.errors.addf(p.at.of("enforced"), "enforced does not go with firstOf: leave it out, or write shadow: true")
	}
	if p.Share != "" || p.weighs() {
		c.errors.addf(p.at.of("share"), "share and weight do not go with firstOf: leave them out")
	}
	for field, said := range map[string]bool{
		"headroom": p.Headroom != 0, "undelayed": p.Undelayed != 0, "maxWait": p.MaxWait != 0, "reserveFor": p.ReserveFor != 0, "unit": p.Unit != "",
	} {
		if said {
			c.errors.addf(p.at.of(field), "%s belongs to one of firstOf: write it there", field)
		}
	}
	all := make([]guard.Policy, len(p.FirstOf))
	for i := range p.FirstOf {
		one := p.FirstOf[i]
		if len(one.Match) > 0 || one.OnError != "" || one.Shadow || one.Enforced != 0 || len(one.FirstOf) > 0 || one.Ban != "" {
			c.errors.addf(one.at.of(""), "match, onError, shadow, enforced, ban and firstOf are not for an alternative: write them outside of firstOf")
		}
		if one.Key == "" {
			one.Key = p.Key
		}
		if one.Cost == "" {
			one.Cost = p.Cost
		}
		if !one.Settle.said() {
			one.Settle = p.Settle
		}
		all[i] = c.single(&one)
	}
	return guard.FirstOf(all...)
}

// single returns a policy of one limit or ban, without the fields that alternatives share.
func (c *compiler) single(p *Policy) guard.Policy {
	g := guard.Policy{
		Unit: p.Unit, Queue: guard.QueuePolicy{MaxWait: p.MaxWait, Undelayed: p.Undelayed},
		Cost: c.cost(p), Settle: guard.SettlePolicy{Cost: c.settle(p), ReserveFor: p.ReserveFor}, Ban: guard.BanPolicy{Tell: p.TellBan},
	}
	if p.Headroom < 0 {
		c.errors.addf(p.at.of("headroom"), "headroom %d is negative", p.Headroom)
	} else if p.Headroom > 0 {
		g.Headroom = func(*http.Request) int { return p.Headroom }
	}
	c.share(p, &g)
	if p.Strike.Name == "denials" {
		g.Ban.StrikeOnDenial = true
	} else {
		c.strike(p, &g.Ban)
	}
	c.limit(p, &g)
	c.checkRoom(p, g.Limit)
	switch {
	case p.Key != "":
		g.By = c.key(p.at, p.Key)
	case g.Limit == core.Unlimited:
		g.By = keyfuncs.Global
	default:
		c.errors.addf(p.at.of(""), "it has no key: say which requests count together, as in key: ip, or, behind proxies, key: ip trusted 10.0.0.0/8")
	}
	return g
}

// checkRoom adds an error if a request of a policy takes more than its limit ever has.
func (c *compiler) checkRoom(p *Policy, limit core.Limit) {
	cost := 1
	if p.Cost != "" {
		var err error
		if cost, err = strconv.Atoi(p.Cost); err != nil { // a function says it
			return
		}
	}
	if limit == nil || limit == core.Unlimited || limit.Validate() != nil || cost == 0 || p.Headroom <= limit.Capacity()-cost {
		return
	}
	field := "headroom"
	if cost > limit.Capacity() {
		field = "cost"
	}
	c.errors.addf(p.at.of(field), "no request passes: a cost of %d and a headroom of %d are more than the %d that %q has",
		cost, p.Headroom, limit.Capacity(), p.Limit)
}

// limit sets the limit or the ban of a policy.
func (c *compiler) limit(p *Policy, g *guard.Policy) {
	d := c.document
	if p.Ban != "" {
		g.Ban.Ban = c.ban(p)
		return
	}
	if p.Limit == "" {
		c.errors.addf(p.at.of(""), "%v", errNothing)
		return
	}
	if plans, named := d.Plans[p.Limit]; named {
		g.LimitFor = c.limitFor(p, plans)
		return
	}
	limit, named := d.Limits[p.Limit]
	if !named {
		var err error
		limit, err = core.ParseLimit(p.Limit)
		switch {
		case err != nil:
			c.errors.addf(p.at.of("limit"), "%q is no name among limits and plans (%q), and no limit: %s",
				p.Limit, append(sorted(d.Limits), sorted(d.Plans)...), trimmed(err))
		case limit.Algorithm() == "ban":
			c.errors.addf(p.at.of("limit"), "%q is a ban: write it behind ban", p.Limit)
		}
	}
	g.Limit = limit
}

// ban returns the ban of a policy.
func (c *compiler) ban(p *Policy) core.Ban {
	if ban, named := c.document.Bans[p.Ban]; named {
		return ban
	}
	ban, err := core.ParseBan(p.Ban)
	if err != nil {
		reason := `write one as in "ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d"`
		if strings.Contains(p.Ban, "ban ") {
			reason = trimmed(err)
		}
		c.errors.addf(p.at.of("ban"), "%q is no name among bans (%q), and no ban: %s", p.Ban, sorted(c.document.Bans), reason)
	}
	return ban
}

// limitFor returns the function that picks the limit of a plan.
func (c *compiler) limitFor(p *Policy, plans map[string]core.Limit) func(*http.Request) core.Limit {
	plan := c.plan(p, "limit")
	other := plans["*"]
	return func(r *http.Request) core.Limit {
		if limit, known := plans[plan(r)]; known {
			return limit
		}
		return other
	}
}

// plan returns the function that names the plan of a request, for a field of a policy.
func (c *compiler) plan(p *Policy, field string) func(*http.Request) string {
	c.needs.Plan = true
	if c.program.Plan != nil {
		return c.program.Plan
	}
	if !c.assumes {
		c.errors.addf(p.at.of(field), "the program does not say which plan a request is of: give Options.Plan to the set")
	}
	return func(*http.Request) string { return "" }
}

// weighs reports whether a policy has weights.
func (p *Policy) weighs() bool { return p.Weight != 0 || len(p.WeightByPlan) > 0 }

// share sets the tenants of a policy and their weights.
func (c *compiler) share(p *Policy, g *guard.Policy) {
	if p.Share == "" {
		if p.weighs() {
			c.errors.addf(p.at.of("weight"), "weight belongs to share: say whose weight it is, as in share: header X-Tenant")
		}
		return
	}
	g.Share = c.keyOf(p.at, "share", p.Share)
	for _, weight := range append(slices.Collect(maps.Values(p.WeightByPlan)), max(1, p.Weight)) {
		if weight < 1 || weight > mostWeight {
			c.errors.addf(p.at.of("weight"), "weight %d is not from 1 to %d", weight, mostWeight)
		}
	}
	if len(p.WeightByPlan) == 0 {
		if p.Weight > 1 {
			g.Weight = func(*http.Request) int { return p.Weight }
		}
		return
	}
	plan := c.plan(p, "weight")
	g.Weight = func(r *http.Request) int {
		if weight, known := p.WeightByPlan[plan(r)]; known {
			return weight
		}
		return max(1, p.WeightByPlan["*"])
	}
}

// mostWeight is the greatest weight of a tenant: see [core.FairShare].
const mostWeight = 1000

// cost returns the function of a cost, or nil for the default.
func (c *compiler) cost(p *Policy) func(*http.Request) int {
	if p.Cost == "" {
		return nil
	}
	if n, err := strconv.Atoi(p.Cost); err == nil {
		if n < 0 {
			c.errors.addf(p.at.of("cost"), "cost %d is negative", n)
		}
		return func(*http.Request) int { return n }
	}
	f := c.program.Costs[p.Cost]
	if f == nil && c.unknown(p, "cost", p.Cost, "Costs", &c.needs.Costs) {
		f = func(*http.Request) int { return 1 }
	}
	return f
}

// unknown reports whether a name that the program has given no function to may be assumed to have one.
func (c *compiler) unknown(p *Policy, field, name, option string, needed *[]string) bool {
	switch {
	case !isName(name):
		c.errors.addf(p.at.of(field), "%s %q is neither a number nor a name of letters, digits, - and _", field, name)
	case !c.assumes:
		c.errors.addf(p.at.of(field), "the program has no function that is called %q: give one in Options.%s to the set", name, option)
	default:
		*needed = with(*needed, name)
		return true
	}
	return false
}

// settle returns the function that gives the real cost of a served request, or nil for the default.
func (c *compiler) settle(p *Policy) func(*http.Request, guard.Served) int {
	if len(p.Settle.Forgive) > 0 {
		c.errors.addf(p.at.of("settle"), "settle forgives %s, and only a strike is forgiven: write how many units it is", p.Settle.Forgive[0])
	}
	said, named := c.byStatus(p, "settle", &p.Settle)
	if said == nil {
		return named
	}
	return func(_ *http.Request, s guard.Served) int {
		if one := said.of(s.Status); one.said && (!s.ClientGone || one.n >= s.Cost) { // else the work may be done
			return one.n
		}
		return s.Cost
	}
}

// strike sets the functions that say of a served request how many strikes it is, and whether it forgives.
func (c *compiler) strike(p *Policy, ban *guard.BanPolicy) {
	said, named := c.byStatus(p, "strike", &p.Strike)
	if ban.Strike = named; said == nil {
		return
	}
	ban.Strike = func(_ *http.Request, s guard.Served) int { return said.of(s.Status).n }
	if len(p.Strike.Forgive) > 0 {
		ban.Forgive = func(_ *http.Request, s guard.Served) bool { return said.of(s.Status).forgives }
	}
}

// byStatus returns the units by status, or the function with their name. Both are nil for the default.
func (c *compiler) byStatus(p *Policy, field string, b *ByStatus) (*statuses, func(*http.Request, guard.Served) int) {
	switch {
	case !b.said():
		return nil, nil
	case b.Name != "" && len(b.Units)+len(b.Forgive) > 0:
		c.errors.addf(p.at.of(field), "%s has both units and a name: leave one of them out", field)
		return nil, nil
	case b.Name != "":
		f := c.program.Settle[b.Name]
		if f == nil && c.unknown(p, field, b.Name, "Settle", &c.needs.Settle) {
			f = func(_ *http.Request, s guard.Served) int { return s.Cost }
		}
		return nil, f
	}
	said := new(statuses)
	for _, status := range b.Forgive {
		if _, twice := b.Units[status]; twice {
			c.errors.addf(p.at.of(field), "%s of %s has both units and forgiveness: leave one of them out", field, status)
		}
		c.checkStatus(p, field, status)
		said.set(status, units{said: true, forgives: true})
	}
	for status, n := range b.Units {
		if n < 0 {
			c.errors.addf(p.at.of(field), "%s %d of %s is negative", field, n, status)
		}
		c.checkStatus(p, field, status)
		said.set(status, units{n: n, said: true})
	}
	said.classes[clientClosedRequest] = units{} // no server has answered with it
	return said, nil
}

// checkStatus adds an error if a text is no status.
func (c *compiler) checkStatus(p *Policy, field, status string) {
	if !isStatus(status) {
		c.errors.addf(p.at.of(field), "%q is no status: want one such as 404, or a class such as 5xx", status)
	}
}

// statuses are the units of each status that were said of it, and of its class.
type statuses struct{ exact, classes [600]units }

// units are those of a status, if they are said.
type units struct {
	n              int
	said, forgives bool
}

// set sets the units of a status, or of a class. A text that is neither sets none.
func (s *statuses) set(status string, u units) {
	if !isStatus(status) {
		return
	}
	if code, err := strconv.Atoi(status); err == nil {
		s.exact[code] = u
		return
	}
	for first, code := int(status[0]-'0')*100, 0; code < 100; code++ {
		s.classes[first+code] = u
	}
}

// of returns the units of a status, or else the units of its class.
func (s *statuses) of(status int) units {
	if status < 0 || status >= len(s.exact) {
		return units{}
	}
	if one := s.exact[status]; one.said {
		return one
	}
	return s.classes[status]
}

// clientClosedRequest is the status of a request with a client that has gone before the answer.
const clientClosedRequest = 499

// mode returns the mode of a policy.
func (c *compiler) mode(p *Policy) guard.ErrorMode {
	switch p.OnError {
	case "":
		return 0
	case "open":
		return guard.FailOpen
	case "closed":
		return guard.FailClosed
	case "fallback":
		return guard.Fallback
	}
	c.errors.addf(p.at.of("onError"), "onError %q is not known: write open, closed or fallback", p.OnError)
	return 0
}

// enforced returns a policy that is enforced for some keys, and the shadow of it that the others have.
func (c *compiler) enforced(p *Policy, all []guard.Policy) []guard.Policy {
	switch {
	case p.Shadow:
		c.errors.addf(p.at.of("enforced"), "it is a shadow, which is enforced for no key: leave one of shadow and enforced out")
		return nil
	case !(p.Enforced > 0 && p.Enforced <= 100):
		c.errors.addf(p.at.of("enforced"), "enforced %v is no share of the keys from above 0%% to 100%%", p.Enforced)
		return nil
	case p.Strike.Name == "denials":
		c.errors.addf(p.at.of("enforced"), "enforced does not go with strike: denials, of which a shadow is not told")
		return nil
	}
	seed := p.Title()
	share := func(r *http.Request) bool { return inShare(seed, keyOf(all[0].By, r), p.Enforced) }
	enforced, watched := all[0], all[0]
	enforced.Skip = func(r *http.Request) bool { return !share(r) }
	watched.Shadow, watched.Skip = true, share
	return []guard.Policy{enforced, watched}
}

// keyOf returns the key that a request is counted by. If it cannot be found out, the policy itself says so.
func keyOf(by keyfuncs.Func, r *http.Request) string {
	key, err := by(r)
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && key == "" {
		key, _ = keyfuncs.Anonymous(r)
	}
	return key
}

// inShare reports whether a key is in a share of percent: the same keys in every process, others for another seed, and
// those of a smaller share also in a greater one.
func inShare(seed, key string, percent float64) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // FNV leaves similar keys near each other
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11)/(1<<53)*100 < percent
}
