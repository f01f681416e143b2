package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/ratelimit/core"
)

// The kinds of changes.
const (
	kindAdded   = "added"
	kindRemoved = "removed"
	kindRenamed = "renamed"
	kindChanged = "changed"
)

// The fates of a state.
const (
	kept = "kept"
	anew = "anew"
)

// Change is one thing that changes.
type Change struct {
	// Kind is "added", "removed", "renamed" or "changed".
	Kind string `json:"kind"`
	// Of is the kind of the thing that changes: limit, plan, ban, list, policy or order.
	Of   string `json:"of"`
	Name string `json:"name"`
	// From is the name that it had, if it is renamed.
	From string `json:"from,omitempty"`
	// Was and Now are its texts in the old and in the new document. Both are empty for a policy that both documents have:
	// Says describes its changes. Otherwise, one of them is empty if the thing is missing in that document.
	Was string `json:"was,omitempty"`
	Now string `json:"now,omitempty"`
	// State is "kept" if keys keep the units that they have used of a limit, plan or ban, "anew" if they do not, and empty if there
	// is no state.
	State string `json:"state,omitempty"`
	// Says explains the change, in words.
	Says []string `json:"says,omitempty"`

	// Before and After are the limits of a change that keeps its state, and otherwise zero.
	Before core.Limit `json:"-"`
	After  core.Limit `json:"-"`
}

// Changes are the changes from one document to another: see [Between].
type Changes []Change

// Between returns the changes from one document to another: first limits, plans and bans, then lists and policies. It is
// empty if nothing changes. The order of the entries of a list and of the patterns of a match means nothing, and is no
// change.
func Between(was, now *Document) Changes {
	c := comparison{was: was, now: now}
	c.limits()
	c.lists()
	c.policies()
	return c.changes
}

// Summary says how much changes, as in "1 added, 2 changed.", or that nothing changes.
func (all Changes) Summary() string {
	var parts []string
	for _, kind := range [...]string{kindAdded, kindRemoved, kindRenamed, kindChanged} {
		n := 0
		for i := range all {
			if all[i].Kind == kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if len(parts) == 0 {
		return "Nothing changes."
	}
	return strings.Join(parts, ", ") + "."
}

// marks begin the texts of changes.
var marks = map[string]string{kindAdded: "+", kindRemoved: "-", kindRenamed: ">", kindChanged: "~"}

// String returns the change in one line, without Says: "~ limit burst: leaky 20, 5/s → leaky 10, 5/s". Texts with
// characters that control a terminal stand in quotes.
func (c *Change) String() string {
	name := c.Name
	if c.From != "" {
		name = c.From + " is now " + c.Name
	}
	text := marks[c.Kind] + " " + c.Of + " " + printable(name)
	switch {
	case c.Was != "" && c.Now != "" && c.Was != c.Now:
		text += ": " + printable(c.Was) + " → " + printable(c.Now)
	case c.Was+c.Now != "":
		text += ": " + printable(cmp.Or(c.Now, c.Was))
	}
	return text
}

// printable returns a text in quotes if it has anything that a terminal would obey.
func printable(text string) string {
	if inQuotes := strconv.Quote(text); inQuotes != `"`+text+`"` {
		return inQuotes
	}
	return text
}

// comparison collects changes.
type comparison struct {
	was, now *Document
	changes  Changes
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

// namedEntry is a limit or a ban of a document.
type namedEntry struct {
	text     string     // without its name
	identity string     // of the state; "" if there is none
	limit    core.Limit // zero for a ban
}

// entries returns all limits and bans that have a name.
func (d *Document) entries() map[label]namedEntry {
	all := make(map[label]namedEntry)
	add := func(at label, limit core.Limit) {
		e := namedEntry{text: unnamed(limit.String(), at.name), limit: limit}
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
		all[label{of: "ban", name: name}] = namedEntry{text: unnamed(ban.String(), name), identity: "ban " + name}
	}
	return all
}

// limits compares the named limits, plans and bans.
func (c *comparison) limits() {
	before, after := c.was.entries(), c.now.entries()
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
		old := at
		if isNew {
			old = from
		}
		apart := change.State == kept && c.was.modes(old).apart(c.now.modes(at))
		if apart {
			change.State = anew
		}
		switch {
		case renamed.gone[at]:
			continue // told under the new name
		case isNew:
			change.Kind, change.From, change.Was = kindRenamed, from.String(), before[from].text
			change.Says = []string{renamedSays(change.State)}
		case !wasThere:
			change.Kind = kindAdded
			change.Says = addedSays(at, change.State)
		case !isThere:
			change.Kind, change.State = kindRemoved, ""
			change.Says = c.removedSays(at)
		case a.text == b.text:
			continue
		case apart:
			change.Kind = kindChanged
			change.Says = []string{shadowSays}
		default:
			change.Kind = kindChanged
			change.Says = changedSays(a, b, change.State)
			if change.State == kept && a.identity == b.identity {
				change.Before, change.After = b.limit, a.limit
			}
		}
		if isThere {
			change.Says = append(change.Says, c.now.usedBy(at))
		}
		c.add(change)
	}
}

// rank is the order in which things are told.
func rank(of string) string { return map[string]string{"limit": "1", "plan": "2", "ban": "3"}[of] }

func union(a, b map[label]namedEntry) map[label]namedEntry {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func stateOf(e namedEntry, had map[string]bool) string {
	switch {
	case e.identity == "":
		return ""
	case had[e.identity]:
		return kept
	}
	return anew
}

// renaming has the labels of renamed limits: from has the former label of each new one, and gone the former labels.
type renaming struct {
	from map[label]label
	gone map[label]bool
}

// renames pairs removed entries with new ones of the same text.
func renames(labels []label, before, after map[label]namedEntry) renaming {
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
	keptSays = "The units used are kept."
	anewSays = "It starts anew: units used before do not count."
	// shadowSays explains a limit with policies that have all become shadows, or are shadows no more.
	shadowSays = "It starts anew, since a shadow counts apart."
)

// modes are how the policies of a limit count: as shadows, apart, or in earnest.
type modes struct{ shadow, earnest bool }

// apart reports whether no count of one mode counts in the other.
func (m modes) apart(other modes) bool {
	together := m.shadow && other.shadow || m.earnest && other.earnest
	return m != (modes{}) && other != (modes{}) && !together
}

// modesOf returns how a policy counts.
func modesOf(p *Policy) modes { return modes{p.Shadow || partly(p), !p.Shadow} }

// modes returns how the policies that use a limit count.
func (d *Document) modes(at label) (m modes) {
	for i := range d.Policies {
		if p := &d.Policies[i]; p.usesOf(at) {
			of := modesOf(p)
			m.shadow, m.earnest = m.shadow || of.shadow, m.earnest || of.earnest
		}
	}
	return m
}

// usesOf reports whether a policy, or an alternative of it, has the limit or the ban with this label.
func (p *Policy) usesOf(at label) bool {
	uses := func(one *Policy) bool {
		return at.of == "ban" && one.Ban == at.name || at.of != "ban" && one.Limit == at.name && one.Ban == ""
	}
	return uses(p) || slices.ContainsFunc(p.FirstOf, func(one Policy) bool { return uses(&one) })
}

func renamedSays(state string) string {
	switch state {
	case kept:
		return keptSays
	case anew:
		return "A limit is known by its name. " + anewSays
	}
	return "It has no state."
}

func addedSays(at label, state string) []string {
	if state != kept {
		return nil
	}
	if at.of == "plan" {
		return []string{"It counts on from the units that a key has used under the other plans of " + at.name + "."}
	}
	return []string{"It counts on from the units used under that name before."}
}

func changedSays(a, b namedEntry, state string) []string {
	switch {
	case state == "":
		return []string{"It limits no request any more."}
	case b.identity == "":
		return []string{"It limited no request before."}
	case a.identity != b.identity && state == anew:
		return []string{"It is another algorithm, which counts in another way. " + anewSays}
	case state == anew:
		return []string{anewSays}
	}
	return []string{keptSays}
}

func (c *comparison) removedSays(at label) []string {
	if at.of != "plan" || c.now.Plans[at.name] == nil {
		return nil
	}
	return []string{fmt.Sprintf("Requests of this plan meet %q now: %s.", "*", unnamed(c.now.Plans[at.name]["*"].String(), at.name))}
}

// usedBy says which policies use a limit.
func (d *Document) usedBy(at label) string {
	var titles []string
	for i := range d.Policies {
		if p := &d.Policies[i]; p.usesOf(at) {
			titles = append(titles, p.called())
		}
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
			c.add(Change{Kind: kindAdded, Of: "list", Name: list.name, Now: one, Says: []string{"It " + list.becomes + "."}})
		}
		for _, one := range without(list.was, list.now) {
			c.add(Change{Kind: kindRemoved, Of: "list", Name: list.name, Was: one, Says: []string{"It meets the policies like all others."}})
		}
	}
	for _, field := range []struct{ name, was, now, without string }{
		{"address", was.Address, now.Address, "the TCP peer"}, {"key", was.Key, now.Key, "none"},
	} {
		if field.was != field.now {
			c.add(Change{Kind: kindChanged, Of: "list", Name: field.name, Was: cmp.Or(field.was, field.without), Now: cmp.Or(field.now, field.without)})
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
