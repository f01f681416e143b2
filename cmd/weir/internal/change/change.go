// Package change says what changes between two documents of policies, and what becomes of what keys have used.
package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/policies"
)

// Kind is what happens to something.
type Kind string

// The kinds.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Renamed Kind = "renamed"
	Changed Kind = "changed"
)

// State is what becomes of what keys have used. The empty one is nothing: there is none.
type State string

// What becomes of a state.
const (
	Kept State = "kept"
	Anew State = "anew"
)

// Change is one thing that changes.
type Change struct {
	Kind Kind `json:"kind"`
	// Of is what changes: limit, plan, ban, list, policy or order.
	Of   string `json:"of"`
	Name string `json:"name"`
	// From is the name that it had, if it is renamed.
	From string `json:"from,omitempty"`
	// Was and Now are what it says in the old and in the new document. The one that is not there is empty, and so are those of a
	// policy that both have: Says tells what changes.
	Was string `json:"was,omitempty"`
	Now string `json:"now,omitempty"`
	// State is what becomes of what keys have used of a limit, plan or ban.
	State State `json:"state,omitempty"`
	// Says is what this means, in words.
	Says []string `json:"says,omitempty"`

	// Before and After are the limits of a change whose state is kept. They are zero where there is none.
	Before core.Limit `json:"-"`
	After  core.Limit `json:"-"`
}

// Between returns what changes from one document to another: first limits, plans and bans, then lists and policies. It is empty if nothing does.
// The order of the entries of a list and of the patterns of a match means nothing, and is no change.
func Between(was, now *policies.Document) []Change {
	c := comparison{was: was, now: now}
	c.limits()
	c.lists()
	c.policies()
	return c.changes
}

// comparison collects changes.
type comparison struct {
	was, now *policies.Document
	changes  []Change
}

func (c *comparison) add(change Change) { c.changes = append(c.changes, change) }

// label is where a limit stands in a document.
type label struct{ of, name, plan string }

func (l label) String() string {
	if l.of == "plan" {
		return l.name + ", " + l.plan
	}
	return l.name
}

// entry is a limit or a ban of a document.
type entry struct {
	text     string     // without its name
	identity string     // what it has in common with those that share its state; "" is none
	limit    core.Limit // zero for a ban
}

// entries returns all limits and bans that have a name.
func entries(d *policies.Document) map[label]entry {
	all := make(map[label]entry)
	add := func(at label, limit core.Limit) {
		e := entry{text: strings.TrimPrefix(limit.String(), at.name+": "), limit: limit}
		if limit != core.Unlimited {
			e.identity = limit.Algorithm() + " " + limit.Name()
		}
		all[at] = e
	}
	for name, limit := range d.Limits {
		add(label{of: "limit", name: name}, limit)
	}
	for name, plans := range d.Plans {
		for plan, limit := range plans {
			add(label{"plan", name, plan}, limit)
		}
	}
	for name, ban := range d.Bans {
		all[label{of: "ban", name: name}] = entry{text: strings.TrimPrefix(ban.String(), name+": "), identity: "ban " + name}
	}
	return all
}

// limits compares what has a name.
func (c *comparison) limits() {
	before, after := entries(c.was), entries(c.now)
	had := make(map[string]bool) // the identities of before
	for _, e := range before {
		had[e.identity] = true
	}
	labels := slices.SortedFunc(maps.Keys(union(before, after)), func(a, b label) int {
		return slices.Compare([]string{rank(a.of), a.name, a.plan}, []string{rank(b.of), b.name, b.plan})
	})
	renamed := renames(labels, before, after)
	for _, at := range labels {
		b, wasThere := before[at]
		a, isThere := after[at]
		from, isNew := renamed.from[at]
		change := Change{Of: at.of, Name: at.String(), Was: b.text, Now: a.text, State: stateOf(a, had)}
		switch {
		case renamed.gone[at]:
			continue // which is told under the new name
		case isNew:
			change.Kind, change.From, change.Was = Renamed, from.String(), before[from].text
			change.Says = []string{renamedSays(change.State)}
		case !wasThere:
			change.Kind = Added
			change.Says = addedSays(at, change.State)
		case !isThere:
			change.Kind, change.State = Removed, ""
			change.Says = c.removedSays(at)
		case a.text == b.text:
			continue
		default:
			change.Kind = Changed
			change.Says = changedSays(a, b, change.State)
			if change.State == Kept && a.identity == b.identity {
				change.Before, change.After = b.limit, a.limit
			}
		}
		if isThere {
			change.Says = append(change.Says, usedBy(c.now, at))
		}
		c.add(change)
	}
}

// rank is the order in which things are told.
func rank(of string) string { return map[string]string{"limit": "1", "plan": "2", "ban": "3"}[of] }

func union(a, b map[label]entry) map[label]entry {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func stateOf(e entry, had map[string]bool) State {
	switch {
	case e.identity == "":
		return ""
	case had[e.identity]:
		return Kept
	}
	return Anew
}

// renaming tells which labels have the limit of which that is gone.
type renaming struct {
	from map[label]label
	gone map[label]bool
}

// renames pairs what is gone with what is new and says the same.
func renames(labels []label, before, after map[label]entry) renaming {
	r := renaming{make(map[label]label), make(map[label]bool)}
	for _, at := range labels {
		if _, isThere := after[at]; isThere {
			continue
		}
		for _, to := range labels {
			_, wasThere := before[to]
			_, taken := r.from[to]
			if wasThere || taken || to.of != at.of || after[to].text != before[at].text {
				continue
			}
			r.from[to], r.gone[at] = at, true
			break
		}
	}
	return r
}

const (
	keptSays = "What was used is kept."
	anewSays = "It starts anew: what was used before does not count."
)

func renamedSays(state State) string {
	switch state {
	case Kept:
		return keptSays
	case Anew:
		return "A limit is known by its name. " + anewSays
	}
	return "It has no state."
}

func addedSays(at label, state State) []string {
	if state != Kept {
		return nil
	}
	if at.of == "plan" {
		return []string{"It counts on from what a key has used under the other plans of " + at.name + "."}
	}
	return []string{"It counts on from what was used under that name before."}
}

func changedSays(a, b entry, state State) []string {
	switch {
	case state == "":
		return []string{"It limits nobody any more."}
	case b.identity == "":
		return []string{"It limited nobody before."}
	case a.identity != b.identity && state == Anew:
		return []string{"It is another algorithm, which counts in another way. " + anewSays}
	case state == Anew:
		return []string{anewSays}
	}
	return []string{keptSays}
}

func (c *comparison) removedSays(at label) []string {
	if at.of != "plan" || c.now.Plans[at.name] == nil {
		return nil
	}
	if other, ok := c.now.Plans[at.name]["*"]; ok {
		return []string{fmt.Sprintf("Requests of this plan meet %q now: %s.", "*", strings.TrimPrefix(other.String(), at.name+": "))}
	}
	return []string{"Requests of this plan are answered with 500 now: there is no \"*\"."}
}

// usedBy says which policies use a limit.
func usedBy(d *policies.Document, at label) string {
	var titles []string
	for i := range d.Policies {
		p := &d.Policies[i]
		uses := func(one *policies.Policy) bool {
			return at.of == "ban" && one.Ban == at.name || at.of != "ban" && one.Limit == at.name && one.Ban == ""
		}
		if uses(p) || slices.ContainsFunc(p.FirstOf, func(one policies.Policy) bool { return uses(&one) }) {
			titles = append(titles, called(p))
		}
	}
	if len(titles) == 0 {
		return "No policy uses it."
	}
	return "Used by: " + strings.Join(titles, "; ") + "."
}

// lists compares the lists.
func (c *comparison) lists() {
	was, now := &c.was.Lists, &c.now.Lists
	for _, list := range []struct {
		name, becomes string
		was, now      []string
	}{{"allow", "passes all policies", was.Allow, now.Allow}, {"deny", "is denied before any policy", was.Deny, now.Deny}} {
		for _, one := range without(list.now, list.was) {
			c.add(Change{Kind: Added, Of: "list", Name: list.name, Now: one, Says: []string{"It " + list.becomes + "."}})
		}
		for _, one := range without(list.was, list.now) {
			c.add(Change{Kind: Removed, Of: "list", Name: list.name, Was: one, Says: []string{"It meets the policies like everybody."}})
		}
	}
	for _, field := range []struct{ name, was, now, without string }{
		{"address", was.Address, now.Address, "the TCP peer"}, {"key", was.Key, now.Key, "none"},
	} {
		if field.was != field.now {
			c.add(Change{Kind: Changed, Of: "list", Name: field.name, Was: or(field.was, field.without), Now: or(field.now, field.without)})
		}
	}
}

// without returns each that is not among others, once.
func without(all, others []string) []string {
	var left []string
	for _, one := range all {
		if !slices.Contains(others, one) && !slices.Contains(left, one) {
			left = append(left, one)
		}
	}
	return left
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
