package policies

import (
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
)

// checkUse adds an error for each entry without effect, since the file may have been cut: limits, plans and bans that no
// policy names, parts of lists that are never looked up, and policies of which none limits anything. It looks at
// otherwise valid documents only, so that a misspelled name is one mistake and not two.
func (c *compiler) checkUse() {
	if len(c.errors) > 0 {
		return
	}
	c.checkNamesAreUsed()
	c.checkListsAreUsed()
	d := c.document
	limits := slices.ContainsFunc(d.Policies, func(p Policy) bool { return d.limits(&p) })
	switch {
	case !limits && !d.LimitsNothing:
		c.errors.addf(d.at.of("policies"), "no policy limits anything: write policies, or limitsNothing: true if that is meant")
	case limits && d.LimitsNothing:
		c.errors.addf(d.at.of("limitsNothing"), "limitsNothing is true, but there are policies that limit: leave limitsNothing or the policies out")
	}
}

// checkNamesAreUsed adds an error for each name that no policy uses, and for plans without a default.
func (c *compiler) checkNamesAreUsed() {
	d := c.document
	limits, bans := make(map[string]bool), make(map[string]bool)
	for i := range d.Policies {
		for _, p := range append([]Policy{d.Policies[i]}, d.Policies[i].FirstOf...) {
			limits[p.Limit], bans[p.Ban] = true, true
		}
	}
	check := func(section, one string, names []string, used map[string]bool) {
		for _, name := range names {
			if !used[name] {
				c.errors.addf(d.at.of(nameOf(section, name)), "no policy uses the %s %q: write a policy with it, or leave it out", one, name)
			}
		}
	}
	check("limits", "limit", sorted(d.Limits), limits)
	check("plans", "plans of", sorted(d.Plans), limits)
	check("bans", "ban", sorted(d.Bans), bans)
	for _, name := range sorted(d.Plans) {
		if _, all := d.Plans[name]["*"]; !all {
			c.errors.addf(d.at.of(nameOf("plans", name)),
				`the plans of %q have no "*": write the limit of requests of another plan, or of none, such as "*": leaky 10, 1/s or "*": unlimited`, name)
		}
	}
}

// checkListsAreUsed adds an error for lists that have no entry, and for an address or a key that no entry needs.
func (c *compiler) checkListsAreUsed() {
	l := &c.document.Lists
	addresses, keys := 0, 0
	for _, entry := range slices.Concat(l.Allow, l.Deny) {
		if strings.HasPrefix(entry, "key:") {
			keys++
		} else {
			addresses++
		}
	}
	switch {
	case l.at != nil && addresses+keys == 0:
		c.errors.addf(l.at.of(""), "lists have no entry: write one under allow or deny, or leave lists out")
		return
	case l.Address != "" && addresses == 0:
		c.errors.addf(l.at.of("address"), "address is looked up among addresses, of which allow and deny have none: write one, or leave address out")
	}
	if l.Key != "" && keys == 0 {
		c.errors.addf(l.at.of("key"), `key is looked up among keys, of which allow and deny have none: write one, such as "key:user:42", or leave key out`)
	}
}

// limits reports whether a policy, be it a shadow, limits any request.
func (d *Document) limits(p *Policy) bool {
	if p.Ban != "" {
		return true
	}
	if slices.ContainsFunc(p.FirstOf, func(one Policy) bool { return d.limits(&one) }) {
		return true
	}
	return len(d.limitsOf(p.Limit)) > 0
}

// limitsOf returns the limits that the text of a policy means, but for core.Unlimited.
func (d *Document) limitsOf(text string) (limits []core.Limit) {
	if plans, named := d.Plans[text]; named {
		for _, plan := range sorted(plans) {
			limits = append(limits, plans[plan])
		}
	} else if limit, named := d.Limits[text]; named {
		limits = []core.Limit{limit}
	} else if limit, err := core.ParseLimit(text); err == nil {
		limits = []core.Limit{limit}
	}
	return slices.DeleteFunc(limits, func(limit core.Limit) bool { return limit == core.Unlimited })
}
