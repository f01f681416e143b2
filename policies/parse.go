package policies

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// MostBytes is how many bytes a document may have: a mebibyte.
const MostBytes = tree.Most

// Parse reads a document, which the package documentation describes. Every error is an [Errors], which says line and column of
// all that is wrong. Whether the program has the functions that the document names, [Document.Set] finds out.
func Parse(text []byte) (*Document, error) {
	root, err := tree.Parse(text)
	if unread, ok := errors.AsType[*tree.Error](err); ok {
		return nil, Errors{{unread.Line, unread.Column, unread.Reason}}
	}
	r := new(reader)
	d := r.document(root)
	if len(r.errors) == 0 {
		c := compiler{document: d, assumes: true}
		c.compile()
		r.errors = c.errors
	}
	if len(r.errors) == 0 && root.Cut != (tree.Position{}) {
		r.errors.addf(root.Cut, "the last line has no line end, so it may have been cut: write one behind it")
	}
	if len(r.errors) > 0 {
		slices.SortStableFunc(r.errors, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
		return nil, r.errors
	}
	return d, nil
}

// reader makes a document of nodes, and collects the errors in them.
type reader struct{ errors Errors }

// field is how a field of a mapping is read.
type field struct {
	name string
	read func(*tree.Node)
}

// fields reads a mapping with known fields, and returns where they stand.
func (r *reader) fields(n *tree.Node, of string, known ...field) places {
	at := places{"": n.Position}
	if n.Kind != tree.Mapping {
		r.errors.addf(n.Position, "%s is %s: want a mapping with some of %s", of, n.Kind, namesOf(known))
		return at
	}
	for i, key := range n.Keys {
		item := n.Items[i]
		index := slices.IndexFunc(known, func(f field) bool { return f.name == key.Text })
		switch {
		case index < 0:
			advice := "want one of " + namesOf(known)
			if likely := likeliest(key.Text, known); likely != "" {
				advice = "write " + likely + " if that is meant; " + advice
			}
			if item.Kind == tree.Null {
				advice += "; or, if it is part of a text with a comma, put quotes around that"
			}
			r.errors.addf(key.Position, "%s has no field %q: %s", of, key.Text, advice)
		case item.Kind == tree.Null:
			r.errors.addf(key.Position, "%s has no value: write one behind it, or leave it out", key.Text)
		default:
			at[key.Text] = item.Position
			known[index].read(item)
		}
	}
	return at
}

func namesOf(known []field) string {
	all := make([]string, len(known))
	for i, f := range known {
		all[i] = f.name
	}
	return strings.Join(all, ", ")
}

func (r *reader) document(n *tree.Node) *Document {
	d := new(Document)
	names := make(places)
	d.at = r.fields(n, "the document",
		field{"version", func(n *tree.Node) {
			if n.Text != "1" {
				r.errors.addf(n.Position, "version %s is not known: write version: 1, or leave it out", n.Text)
			}
		}},
		field{"limits", func(n *tree.Node) { d.Limits = entries(r, n, "limits", r.limit); names.add("limits", n) }},
		field{"plans", func(n *tree.Node) { d.Plans = entries(r, n, "plans", r.plans); names.add("plans", n) }},
		field{"bans", func(n *tree.Node) { d.Bans = entries(r, n, "bans", r.ban); names.add("bans", n) }},
		field{"lists", func(n *tree.Node) { d.Lists = r.lists(n) }},
		field{"policies", func(n *tree.Node) { d.Policies = r.policies(n, false) }},
		field{"limitsNothing", func(n *tree.Node) { d.LimitsNothing = r.bool(n, "limitsNothing") }},
	)
	maps.Copy(d.at, names)
	for name := range d.Plans {
		if _, both := d.Limits[name]; both {
			r.errors.addf(n.Position, "%q is among limits and among plans: give one of them another name", name)
		}
	}
	return d
}

// entries reads a mapping of names.
func entries[T any](r *reader, n *tree.Node, of string, read func(name string, n *tree.Node) (T, bool)) map[string]T {
	if n.Kind != tree.Mapping {
		r.errors.addf(n.Position, "%s is %s: want a mapping of names", of, n.Kind)
		return nil
	}
	if len(n.Keys) == 0 {
		return nil
	}
	all := make(map[string]T, len(n.Keys))
	for i, key := range n.Keys {
		if value, ok := read(key.Text, n.Items[i]); ok {
			all[key.Text] = value
		}
	}
	return all
}

func (r *reader) limit(name string, n *tree.Node) (core.Limit, bool) {
	text := r.text(n, "the limit "+strconv.Quote(name))
	if text == "" {
		return nil, false
	}
	limit, err := core.ParseLimit(text)
	if err != nil {
		return nil, r.add(n, err)
	}
	if limit != core.Unlimited && limit.Identity() != limit {
		r.errors.addf(n.Position, "the limit has the name %q already: leave %q out of the text", name, limit.Name()+":")
		return nil, false
	}
	switch of := limit.(type) {
	case core.Quota:
		limit = of.Named(name)
	case core.Places:
		limit = of.Named(name)
	case core.Bans:
		r.errors.addf(n.Position, "%q is a ban: write it under bans", text)
		return nil, false
	}
	return limit, r.add(n, limit.Validate())
}

func (r *reader) plans(name string, n *tree.Node) (map[string]core.Limit, bool) {
	all := entries(r, n, "the plans of "+strconv.Quote(name), func(_ string, n *tree.Node) (core.Limit, bool) { return r.limit(name, n) })
	if len(all) == 0 && n.Kind == tree.Mapping && len(n.Keys) == 0 {
		r.errors.addf(n.Position, "%q has no plan: write each with its limit, as in free: leaky 10, 1/s", name)
	}
	return all, len(all) > 0
}

func (r *reader) ban(name string, n *tree.Node) (core.Ban, bool) {
	text := r.text(n, "the ban "+strconv.Quote(name))
	if text == "" {
		return core.Ban{}, false
	}
	ban, err := core.ParseBan(text)
	if err == nil {
		ban = ban.Named(name)
		err = ban.Validate()
	}
	return ban, r.add(n, err)
}

// add adds an error of package core, if there is one.
func (r *reader) add(n *tree.Node, err error) (ok bool) {
	if err != nil {
		r.errors.addf(n.Position, "%s", trimmed(err))
	}
	return err == nil
}

func (r *reader) lists(n *tree.Node) (l Lists) {
	entries := make(places)
	l.at = r.fields(n, "lists",
		field{"allow", func(n *tree.Node) { l.Allow = r.texts(n, "allow", entries) }},
		field{"deny", func(n *tree.Node) { l.Deny = r.texts(n, "deny", entries) }},
		field{"address", func(n *tree.Node) { l.Address = r.text(n, "address") }},
		field{"key", func(n *tree.Node) { l.Key = r.text(n, "key") }},
	)
	maps.Copy(l.at, entries)
	return l
}

// entryOf is the place of an entry of a list, in words.
func entryOf(list string, i int) string { return list + " " + strconv.Itoa(i) }

func (r *reader) policies(n *tree.Node, alternatives bool) []Policy {
	if n.Kind != tree.Sequence {
		r.errors.addf(n.Position, "this is %s: want a list of policies, each behind a dash", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		return nil
	}
	all := make([]Policy, len(n.Items))
	for i, item := range n.Items {
		all[i] = r.policy(item, alternatives)
	}
	return all
}

func (r *reader) policy(n *tree.Node, alternative bool) (p Policy) {
	known := []field{
		{"name", func(n *tree.Node) { p.Name = r.text(n, "name") }},
		{"key", func(n *tree.Node) { p.Key = r.text(n, "key") }},
		{"limit", func(n *tree.Node) { p.Limit = r.text(n, "limit") }},
		{"cost", func(n *tree.Node) { p.Cost = r.cost(n) }},
		{"headroom", func(n *tree.Node) { p.Headroom = r.number(n, "headroom") }},
		{"settle", func(n *tree.Node) { p.Settle = r.byStatus(n, "settle", false) }},
		{"unit", func(n *tree.Node) { p.Unit = r.text(n, "unit") }},
		{"undelayed", func(n *tree.Node) { p.Undelayed = r.number(n, "undelayed") }},
		{"maxWait", func(n *tree.Node) { p.MaxWait = r.duration(n, "maxWait") }},
		{"reserveFor", func(n *tree.Node) { p.ReserveFor = r.duration(n, "reserveFor") }},
	}
	if !alternative {
		known = append(known, []field{
			{"match", func(n *tree.Node) { p.Match = r.matches(n) }},
			{"share", func(n *tree.Node) { p.Share = r.text(n, "share") }},
			{"weight", func(n *tree.Node) { p.Weight, p.WeightByPlan = r.weight(n) }},
			{"ban", func(n *tree.Node) { p.Ban = r.text(n, "ban") }},
			{"firstOf", func(n *tree.Node) { p.FirstOf = r.policies(n, true) }},
			{"strike", func(n *tree.Node) { p.Strike = r.byStatus(n, "strike", true) }},
			{"tellBan", func(n *tree.Node) { p.TellBan = r.bool(n, "tellBan") }},
			{"shadow", func(n *tree.Node) { p.Shadow = r.bool(n, "shadow") }},
			{"enforced", func(n *tree.Node) { p.Enforced = r.percentage(n) }},
			{"onError", func(n *tree.Node) { p.OnError = r.text(n, "onError") }},
		}...)
	}
	p.at = r.fields(n, "a policy", known...)
	return p
}

func (r *reader) matches(n *tree.Node) []Match {
	items := []*tree.Node{n}
	if n.Kind == tree.Sequence {
		items = n.Items
	}
	if len(items) == 0 {
		r.errors.addf(n.Position, "match is an empty list: leave it out for all requests")
	}
	all := make([]Match, len(items))
	for i, item := range items {
		if item.Kind != tree.Mapping {
			all[i].Pattern = r.text(item, "match")
			continue
		}
		all[i].Pattern = "/"
		r.fields(item, "match",
			field{"pattern", func(n *tree.Node) { all[i].Pattern = r.text(n, "pattern") }},
			field{"header", func(n *tree.Node) {
				for name, value := range entries(r, n, "header", func(name string, n *tree.Node) (string, bool) {
					value := r.scalar(n, name)
					return value, value != ""
				}) {
					if all[i].Header == nil {
						all[i].Header = make(map[string]string)
					}
					canonical := http.CanonicalHeaderKey(name)
					if _, twice := all[i].Header[canonical]; twice {
						r.errors.addf(n.Position, "the header %s stands here twice", canonical)
					}
					all[i].Header[canonical] = value
				}
			}},
		)
	}
	return all
}

// byStatus reads units by status, or a name.
func (r *reader) byStatus(n *tree.Node, of string, strikes bool) (b ByStatus) {
	if n.Kind == tree.Text {
		b.Name = n.Text
		return b
	}
	if n.Kind != tree.Mapping || len(n.Keys) == 0 {
		r.errors.addf(n.Position, "%s is %s: want units by status, as in {5xx: 0}, or the name of a function", of, n.Kind)
		return b
	}
	b.Units = make(map[string]int, len(n.Keys))
	for i, key := range n.Keys {
		item := n.Items[i]
		if !isStatus(key.Text) {
			r.errors.addf(key.Position, "%q is no status: want one such as 404, or a class such as 5xx", key.Text)
		}
		if strikes && item.Text == "forgive" {
			b.Forgive = append(b.Forgive, key.Text)
			continue
		}
		b.Units[key.Text] = r.number(item, of+" of "+key.Text)
	}
	slices.Sort(b.Forgive)
	return b
}

func isStatus(text string) bool {
	if len(text) != 3 || text[0] < '1' || text[0] > '5' {
		return false
	}
	_, err := strconv.Atoi(text)
	return err == nil || text[1:] == "xx"
}

func (r *reader) text(n *tree.Node, of string) string {
	switch {
	case n.Kind == tree.Null:
		r.errors.addf(n.Position, "%s is %s: want a text; or, if it is part of a text with a comma, put quotes around that", of, n.Kind)
	case n.Kind != tree.Text:
		r.errors.addf(n.Position, "%s is %s: want a text, in quotes if it looks like something else", of, n.Kind)
	case strings.TrimSpace(n.Text) == "":
		r.errors.addf(n.Position, "%s is empty: write something, or leave it out", of)
	default:
		return n.Text
	}
	return ""
}

// scalar reads a text that may look like something else.
func (r *reader) scalar(n *tree.Node, of string) string {
	if (n.Kind == tree.Number || n.Kind == tree.Bool) && n.Text != "" {
		return n.Text
	}
	return r.text(n, of)
}

// texts reads a list, and remembers where its entries stand.
func (r *reader) texts(n *tree.Node, of string, at places) []string {
	if n.Kind != tree.Sequence {
		r.errors.addf(n.Position, "%s is %s: want a list, as in [192.0.2.0/24]", of, n.Kind)
		return nil
	}
	var all []string
	for _, item := range n.Items {
		if text := r.text(item, "an entry of "+of); text != "" {
			at[entryOf(of, len(all))] = item.Position
			all = append(all, text)
		}
	}
	return all
}

// cost reads a number, or a name.
func (r *reader) cost(n *tree.Node) string {
	if n.Kind == tree.Number {
		return strconv.Itoa(r.number(n, "cost"))
	}
	return r.text(n, "cost")
}

// weight reads a weight, or several by the plans of requests.
func (r *reader) weight(n *tree.Node) (weight int, byPlan map[string]int) {
	if n.Kind != tree.Mapping || len(n.Keys) == 0 {
		return r.number(n, "weight"), nil
	}
	byPlan = make(map[string]int, len(n.Keys))
	for i, key := range n.Keys {
		byPlan[key.Text] = r.number(n.Items[i], "weight of "+key.Text)
	}
	return 0, byPlan
}

// wholeNumber matches texts that all readers of YAML take for the same number: 010 is eight for some.
var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9_]*)$`)

func (r *reader) number(n *tree.Node, of string) int {
	value, err := strconv.Atoi(strings.ReplaceAll(n.Text, "_", ""))
	if n.Kind != tree.Number || !wholeNumber.MatchString(n.Text) || err != nil {
		r.errors.addf(n.Position, "%s is no whole number of at least 0: write it in digits alone, such as 100", of)
		return 0
	}
	return value
}

func (r *reader) bool(n *tree.Node, of string) bool {
	if n.Kind != tree.Bool {
		r.errors.addf(n.Position, "%s is %s: want true or false", of, n.Kind)
	}
	return strings.EqualFold(n.Text, "true")
}

func (r *reader) duration(n *tree.Node, of string) time.Duration {
	value, err := time.ParseDuration(n.Text)
	if n.Kind != tree.Text || err != nil || value <= 0 {
		r.errors.addf(n.Position, "%s is no time of more than 0: write one such as 500ms or 10s", of)
	}
	return value
}

// percents is a share as a file writes it.
var percents = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?%$`)

func (r *reader) percentage(n *tree.Node) float64 {
	value, err := strconv.ParseFloat(strings.TrimSuffix(n.Text, "%"), 64)
	if !percents.MatchString(n.Text) || err != nil || !(value > 0 && value <= 100) {
		r.errors.addf(n.Position, "enforced is no share of the keys from above 0%% to 100%%: write one such as 25%%, or shadow: true for none")
		return 0
	}
	return value
}

// sorted returns the keys of a mapping in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
