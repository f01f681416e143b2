package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// pair is a policy in the old and in the new document. One of them may be nil.
type pair struct{ was, now *Policy }

// likenesses say which policies of two documents are the same one, the surest first.
var likenesses = []func(a, b *Policy) bool{
	func(a, b *Policy) bool { return a.Name == b.Name && len(differences(a, b)) == 0 },
	func(a, b *Policy) bool { return a.Name != "" && a.Name == b.Name },
	func(a, b *Policy) bool {
		return a.subject() == b.subject() && a.Requests() == b.Requests() && a.Key == b.Key
	},
	func(a, b *Policy) bool { return a.subject() == b.subject() && a.Requests() == b.Requests() },
	func(a, b *Policy) bool {
		return a.Requests() == b.Requests() && a.Key == b.Key && a.Ban == "" == (b.Ban == "")
	},
	func(a, b *Policy) bool { return a.subject() == b.subject() && a.Key == b.Key },
	func(a, b *Policy) bool { return len(a.Match) > 0 && a.Requests() == b.Requests() },
	func(a, b *Policy) bool { return a.subject() == b.subject() },
}

// pairs returns the policies of both documents: those of the new one in its order, and then the removed ones.
func pairs(was, now *Document) []pair {
	all := make([]pair, 0, len(now.Policies)+len(was.Policies))
	left := make([]*Policy, len(was.Policies))
	for i := range was.Policies {
		left[i] = &was.Policies[i]
	}
	for i := range now.Policies {
		all = append(all, pair{now: &now.Policies[i]})
	}
	for _, alike := range likenesses {
		for i := range all {
			if all[i].was != nil {
				continue
			}
			if at := slices.IndexFunc(left, func(p *Policy) bool { return alike(p, all[i].now) }); at >= 0 {
				all[i].was = left[at]
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	for _, p := range left {
		all = append(all, pair{was: p})
	}
	return all
}

// policies compares the policies.
func (c *comparison) policies() {
	all := pairs(c.was, c.now)
	for _, p := range all {
		switch {
		case p.was == nil:
			c.add(Change{Kind: kindAdded, Of: "policy", Name: p.now.called(), Now: p.now.sentence()})
		case p.now == nil:
			c.add(Change{Kind: kindRemoved, Of: "policy", Name: p.was.called(), Was: p.was.sentence()})
		default:
			c.policy(p.was, p.now)
		}
	}
	all = slices.DeleteFunc(all, func(p pair) bool { return p.was == nil || p.now == nil })
	places := make(map[*Policy]int, len(c.was.Policies))
	for i := range c.was.Policies {
		places[&c.was.Policies[i]] = i
	}
	if !slices.IsSortedFunc(all, func(a, b pair) int { return places[a.was] - places[b.was] }) {
		c.add(Change{Kind: kindChanged, Of: "order", Name: "policies", Says: []string{
			"They stand in another order, and so do the limits in the headers that clients get. Who is denied does not depend on it.",
		}})
	}
}

// policy compares a policy in the old and in the new document.
func (c *comparison) policy(was, now *Policy) {
	says := differences(was, now)
	if was.Name == now.Name && len(says) == 0 {
		return
	}
	change := Change{Kind: kindChanged, Of: "policy", Name: now.called(), Says: says}
	if was.Title() != now.Title() {
		if was.Name != now.Name {
			change.Kind, change.From = kindRenamed, was.Title()
		}
		if partly(was) && partly(now) {
			change.Says = append(change.Says,
				"Its name decides for which keys it is enforced, so they are others now. Keys for which it was a shadow start anew.")
		}
	}
	if was.Limit != now.Limit && now.Limit != "" && was.Limit != "" && !modesOf(was).apart(modesOf(now)) {
		change.Says = append(change.Says, c.moved(was, now))
	}
	c.add(change)
}

func partly(p *Policy) bool { return p.Enforced > 0 && p.Enforced < 100 }

// moved describes the state after a policy has got another limit.
func (c *comparison) moved(was, now *Policy) string {
	before, after := c.was.limitsOf(was.Limit), c.now.limitsOf(now.Limit)
	for _, limit := range after {
		if slices.ContainsFunc(before, func(other core.Limit) bool { return limit.Identity() == other.Identity() }) {
			return keptSays
		}
	}
	if len(after) == 0 || len(before) == 0 {
		return "There was no limit, or there is none any more."
	}
	for i := range c.was.Policies {
		for _, limit := range c.was.limitsOf(c.was.Policies[i].Limit) {
			if slices.ContainsFunc(after, func(other core.Limit) bool { return limit.Identity() == other.Identity() }) {
				return "It counts on from the units used of that limit before."
			}
		}
	}
	return anewSays
}

// compared is a field of a policy, but for its name.
type compared struct {
	name string
	text func(p *Policy) string
	// says tells of a change, given the texts of the field.
	says func(was, now string) string
}

// instead returns a function that describes a change in one sentence, with a text for the empty value.
func instead(format, empty string) func(was, now string) string {
	return func(was, now string) string { return fmt.Sprintf(format, cmp.Or(now, empty), cmp.Or(was, empty)) }
}

// number returns the text of a number, which is empty if it is 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// duration returns the text of a time, which is empty if it is 0.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// switched returns a function that describes how a field is turned on or off.
func switched(on, off string) func(was, now string) string {
	return func(_, now string) string {
		if now != "" {
			return on
		}
		return off
	}
}

func ifTrue(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// comparedFields are all fields of a policy. It is a function, since the alternatives of a policy are policies.
func comparedFields() []compared {
	return []compared{
		{"match", (*Policy).Requests, instead("It is met by %s instead of %s.", "")},
		{
			"key", func(p *Policy) string { return p.Key },
			instead("It counts by %s instead of %s. A key that reads the same in both keeps what it used; all others start anew.", "nothing"),
		},
		{"limit", func(p *Policy) string { return p.Limit }, instead("Its limit is %s instead of %s.", "none")},
		{"ban", func(p *Policy) string { return p.Ban }, instead("Its ban is %s instead of %s. Each name has bans of its own.", "none")},
		{"firstOf", alternativesText, instead("Its alternatives are %s instead of %s.", "none")},
		{"cost", costText, instead("A request costs %s instead of %s.", "1")},
		{"headroom", func(p *Policy) string { return number(p.Headroom) }, instead("Its headroom is %s instead of %s.", "0")},
		{
			"share", func(p *Policy) string { return p.Share },
			instead("Its tenants are named by %s instead of %s. They begin anew, unless they are called the same.", "nothing"),
		},
		{"weight", weightText, instead("The weight of a tenant is %s instead of %s.", "1")},
		{
			"settle", func(p *Policy) string { return statusText(p.Settle) },
			instead("Its real cost is %s instead of %s.", "the reserved one"),
		},
		{"strike", func(p *Policy) string { return statusText(p.Strike) }, instead("Its strikes are %s instead of %s.", "its cost")},
		{
			"tellBan", func(p *Policy) string { return ifTrue(p.TellBan) },
			switched("A banned client gets 429 with Retry-After now, in place of 403.", "A banned client gets 403 now, in place of 429 with Retry-After."),
		},
		{"unit", func(p *Policy) string { return p.Unit }, instead("Clients are told that it counts %s instead of %s.", "requests")},
		{"undelayed", func(p *Policy) string { return number(p.Undelayed) }, instead("%s requests pass without delay instead of %s.", "0")},
		{"maxWait", func(p *Policy) string { return duration(p.MaxWait) }, instead("A request waits up to %s for a place instead of %s.", "0s")},
		{
			"reserveFor", func(p *Policy) string { return duration(p.ReserveFor) },
			instead("The cost is reserved for %s instead of %s.", "as long as it takes"),
		},
		{
			"shadow", func(p *Policy) string { return ifTrue(p.Shadow) },
			switched("It is a shadow now, which denies no request. A shadow counts apart: it starts anew.",
				"It denies now: it is no shadow any more. A shadow counts apart: it starts anew, without the shadow's counts."),
		},
		{"enforced", enforcedText, enforcedSays},
		{
			"onError", func(p *Policy) string { return p.OnError },
			instead("When the store cannot answer, it is %s instead of %s.", "as the options of the program say"),
		},
	}
}

// differences says in which fields two policies differ.
func differences(was, now *Policy) (says []string) {
	for _, f := range comparedFields() {
		if before, after := f.text(was), f.text(now); before != after {
			says = append(says, f.says(before, after))
		}
	}
	return says
}

func enforcedText(p *Policy) string {
	if p.Enforced == 0 || p.Enforced == 100 {
		return ""
	}
	return strconv.FormatFloat(p.Enforced, 'f', -1, 64) + "%"
}

func enforcedSays(was, now string) string {
	share := func(text string) float64 {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err != nil {
			return 100 // the empty text
		}
		return percent
	}
	text := fmt.Sprintf("It is enforced for %s of the keys instead of %s. ", cmp.Or(now, "100%"), cmp.Or(was, "100%"))
	if share(now) > share(was) {
		return text + "Keys for which it was a shadow start anew, without the shadow's counts."
	}
	return text + "The other keys are only watched."
}

func costText(p *Policy) string {
	if p.Cost == "1" {
		return ""
	}
	return p.Cost
}

func alternativesText(p *Policy) string {
	texts := make([]string, len(p.FirstOf))
	for i := range p.FirstOf {
		texts[i] = p.FirstOf[i].sentence()
	}
	return strings.Join(texts, ", or else ")
}

// weightText returns the text of the weights of tenants.
func weightText(p *Policy) string {
	texts := make([]string, 0, len(p.WeightByPlan))
	for _, plan := range slices.Sorted(maps.Keys(p.WeightByPlan)) {
		texts = append(texts, strconv.Itoa(p.WeightByPlan[plan])+" for "+plan)
	}
	return number(p.Weight) + strings.Join(texts, ", ")
}

// statusText returns units by status in order.
func statusText(b ByStatus) string {
	if b.Name != "" {
		return b.Name
	}
	values := b.values("forgiveness")
	texts := make([]string, 0, len(values))
	for _, status := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, values[status]+" for "+status)
	}
	return strings.Join(texts, ", ")
}

// Requests says which requests meet the policy: its patterns in alphabetical order, each once, or "all requests".
func (p *Policy) Requests() string {
	texts := make([]string, len(p.Match))
	for i, m := range p.Match {
		texts[i] = m.Pattern
		for _, name := range slices.Sorted(maps.Keys(m.Header)) {
			texts[i] += " with " + name + ": " + m.Header[name]
		}
	}
	slices.Sort(texts)
	return cmp.Or(strings.Join(slices.Compact(texts), " or "), "all requests")
}

// subject returns the limit or ban of a policy, or its alternatives.
func (p *Policy) subject() string {
	return cmp.Or(p.Ban, p.Limit, alternativesText(p))
}

// called returns the title of a policy, and its requests.
func (p *Policy) called() string {
	return p.Title() + " (" + p.Requests() + ")"
}

// sentence returns all that a policy says but for its match and name.
func (p *Policy) sentence() string {
	var parts []string
	for _, f := range comparedFields() {
		text := f.text(p)
		switch {
		case text == "" || f.name == "match":
		case f.name == "limit" || f.name == "ban":
			parts = append([]string{text}, parts...)
		case text == "true":
			parts = append(parts, f.name)
		default:
			parts = append(parts, f.name+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}
