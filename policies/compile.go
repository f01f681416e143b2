package policies

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	"github.com/weir-go/ratelimit/policies/internal/route"
)

// compiler makes rules of a document.
type compiler struct {
	document *Document
	names    names
	needs    Needs // of what the program has to give
	errors   Errors
}

// dry is the limiter of policies that are only looked at.
var dry = sync.OnceValue(func() *core.Limiter { return core.New(core.NewMemory()) })

// compile returns the rules, and remembers what is wrong with the document.
func (c *compiler) compile() guard.Rules {
	d := c.document
	own := make([][]guard.Policy, len(d.Policies)) // what each becomes
	for i := range d.Policies {
		own[i] = c.policy(&d.Policies[i])
	}
	l := c.lists(&d.Lists)
	table, groups := c.table()
	for i := range d.Policies {
		if p := &d.Policies[i]; len(p.Match) == 0 {
			for g := range groups {
				groups[g] = append(groups[g], i)
			}
		}
	}
	if len(c.errors) > 0 {
		return guard.Rules{}
	}
	rules := guard.Rules{Lists: l, Choose: func(r *http.Request, matched keyfuncs.Matched) int {
		if found := table.Find(r, decodesPaths(matched), matches); found != nil {
			return found.of(r)
		}
		return 0
	}}
	for _, members := range groups {
		slices.Sort(members)
		var policies []guard.Policy
		for _, i := range members {
			policies = append(policies, own[i]...)
		}
		c.checkTogether(members)
		rules.Policies = append(rules.Policies, policies)
		rules.Names = append(rules.Names, c.called(members))
	}
	return rules
}

// decodesPaths reports whether the router of a framework takes an escaped slash in a path for a slash.
func decodesPaths(matched keyfuncs.Matched) bool {
	decoder, ok := matched.(interface{ DecodesPaths() bool })
	return ok && decoder.DecodesPaths()
}

// variants are what a pattern has: the more specific first.
type variants []variant

type variant struct {
	header []wanted
	group  int
}

// wanted is a field that a request must have.
type wanted struct{ name, value string }

func (v *variant) matches(r *http.Request) bool {
	for _, w := range v.header {
		values := r.Header[w.name]
		if w.value == "*" && !slices.ContainsFunc(values, func(value string) bool { return value != "" }) ||
			w.value != "*" && !slices.Contains(values, w.value) {
			return false
		}
	}
	return true
}

// of returns the group of a request, or -1.
func (v variants) of(r *http.Request) int {
	for i := range v {
		if v[i].matches(r) {
			return v[i].group
		}
	}
	return -1
}

func matches(r *http.Request, v *variants) bool { return v.of(r) >= 0 }

// table returns where the group of a request is found, and which policies are in each. The first one is of no pattern.
func (c *compiler) table() (*route.Table[variants], [][]int) {
	groups := [][]int{nil}
	byPattern := make(map[string]*variants)
	var patterns []string
	for i := range c.document.Policies {
		p := &c.document.Policies[i]
		for _, m := range p.Match {
			v := byPattern[m.Pattern]
			if v == nil {
				v = new(variants)
				byPattern[m.Pattern] = v
				patterns = append(patterns, m.Pattern)
			}
			header := c.header(p, m)
			known := slices.IndexFunc(*v, func(other variant) bool { return slices.Equal(other.header, header) })
			if known < 0 {
				c.checkVariant(p, *v, header, groups)
				*v = append(*v, variant{header, len(groups)})
				groups = append(groups, nil)
				known = len(*v) - 1
			}
			if group := (*v)[known].group; !slices.Contains(groups[group], i) {
				groups[group] = append(groups[group], i)
			}
		}
	}
	table := new(route.Table[variants])
	for _, pattern := range patterns {
		v := *byPattern[pattern]
		first := groups[v[0].group][0]
		slices.SortStableFunc(v, func(a, b variant) int { return specificity(b.header) - specificity(a.header) })
		if err := table.Add(pattern, v); err != nil {
			c.errors.add(c.document.Policies[first].at.of("match"), "%v", err)
		}
	}
	return table, groups
}

// header returns the fields that a match wants, in order.
func (c *compiler) header(p *Policy, m Match) []wanted {
	header := make([]wanted, 0, len(m.Header))
	for _, name := range sorted(m.Header) {
		if canonical := http.CanonicalHeaderKey(name); canonical == "Host" || strings.ContainsAny(name, " \t\r\n:") || name == "" {
			c.errors.add(p.at.of("match"), "%q is no header to match by: write a host into the pattern, as in api.example.com/", name)
		}
		header = append(header, wanted{http.CanonicalHeaderKey(name), m.Header[name]})
	}
	return header
}

// specificity is greater for what wants more.
func specificity(header []wanted) int {
	n := 0
	for _, w := range header {
		n += 2
		if w.value != "*" {
			n++
		}
	}
	return n
}

// checkVariant returns an error if some requests have the fields of two variants of one pattern, and neither is more specific.
func (c *compiler) checkVariant(p *Policy, others variants, header []wanted, groups [][]int) {
	for _, other := range others {
		if apart(header, other.header) || covers(header, other.header) || covers(other.header, header) {
			continue
		}
		first := &c.document.Policies[groups[other.group][0]]
		c.errors.add(p.at.of("match"), "a request can have these headers and those of %s, and neither match is more specific:"+
			" add the headers of the one to the other", first.where())
	}
}

// apart reports whether no request has both. A request may repeat a field, but who does so gets what the order says.
func apart(a, b []wanted) bool {
	for _, one := range a {
		for _, other := range b {
			if one.name == other.name && one.value != other.value && one.value != "*" && other.value != "*" {
				return true
			}
		}
	}
	return false
}

// covers reports whether all that has the fields b has the fields a.
func covers(a, b []wanted) bool {
	return !slices.ContainsFunc(a, func(one wanted) bool {
		return !slices.ContainsFunc(b, func(other wanted) bool {
			return one.name == other.name && (one.value == other.value || one.value == "*")
		})
	})
}

// where says which policy is meant.
func (p *Policy) where() string {
	at := p.at.of("")
	if at.Line == 0 {
		return strconv.Quote(p.Title())
	}
	return fmt.Sprintf("%q (line %d)", p.Title(), at.Line)
}

// Title returns what the policy is called: its Name, or else its limit or ban.
func (p *Policy) Title() string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Ban != "":
		return p.Ban
	case p.Limit != "":
		return p.Limit
	case len(p.FirstOf) > 0:
		return "first of " + p.FirstOf[0].Title()
	}
	return "a policy"
}

// called says in errors which rule is meant.
func (c *compiler) called(members []int) string {
	titles := make([]string, len(members))
	for i, member := range members {
		titles[i] = c.document.Policies[member].where()
	}
	return "policies: " + strings.Join(titles, " and ")
}

// checkTogether adds an error if policies of one request have the same name.
func (c *compiler) checkTogether(members []int) {
	given := make(map[string]*Policy)
	for _, i := range members {
		p := &c.document.Policies[i]
		if p.Shadow || len(p.FirstOf) > 0 { // what is shared with alternatives is for package guard to say
			continue
		}
		name := strings.ToLower(cmpOr(p.Limit, p.Ban))
		if name != "" && c.hasName(p) && given[name] != nil {
			c.errors.add(p.at.of("limit"), "%q is the name of the limit of %s, too, which the same requests meet:"+
				" give one of the two limits another name", p.Limit+p.Ban, given[name].where())
		}
		given[name] = p
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// hasName reports whether the limit of a policy is one that has a name.
func (c *compiler) hasName(p *Policy) bool {
	limit, isLimit := c.document.Limits[p.Limit]
	_, isPlan := c.document.Plans[p.Limit]
	_, isBan := c.document.Bans[p.Ban]
	return isLimit && limit != core.Unlimited || isPlan || isBan
}

// lists returns the lists of a document.
func (c *compiler) lists(l *Lists) guard.Lists {
	if len(l.Allow) == 0 && len(l.Deny) == 0 {
		if l.Address != "" || l.Key != "" {
			c.errors.add(l.at.of(""), "lists have neither allow nor deny: write one of them, or leave lists out")
		}
		return guard.Lists{}
	}
	var of guard.Lists
	if list := c.list(l, "allow", l.Allow); list != nil {
		of.Allow = list
	}
	if list := c.list(l, "deny", l.Deny); list != nil {
		of.Deny = list
	}
	if l.Address != "" {
		address, err := keyfuncs.ParseAddress(l.Address)
		if err != nil {
			c.errors.add(l.at.of("address"), "%s", trimmed(err))
		}
		of.Address = address
	}
	if l.Key != "" {
		of.By = c.key(l.at, l.Key)
	}
	for _, list := range [...]guard.List{of.Allow, of.Deny} {
		if list != nil && list.Keys() > 0 && l.Key == "" {
			c.errors.add(l.at.of(""), "lists have keys: say by key what is looked up among them, as in key: user")
		}
	}
	return of
}

// list returns the list of some entries, or nil if there are none.
func (c *compiler) list(l *Lists, name string, entries []string) *lists.List {
	if len(entries) == 0 {
		return nil
	}
	all, err := lists.Parse(strings.NewReader(strings.Join(entries, "\n")))
	if err != nil {
		c.errors.add(l.at.of(name), "%s: %s", name, trimmed(err))
		return lists.Of()
	}
	return all
}

// key returns a key function.
func (c *compiler) key(at places, text string) keyfuncs.Func {
	by, err := keyfuncs.Parse(text, func(name string) keyfuncs.Func {
		if f := c.names.keys[name]; f != nil || !c.names.assume || !isName(name) {
			return f
		}
		c.needs.Keys = with(c.needs.Keys, name)
		return func(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }
	})
	if err != nil {
		c.errors.add(at.of("key"), "%s", trimmed(err))
		if len(c.names.keys) > 0 || !c.names.assume {
			known := slices.Sorted(maps.Keys(c.names.keys))
			c.errors[len(c.errors)-1].Reason += fmt.Sprintf("; the program gives functions to %q", known)
		}
	}
	return by
}

// isName reports whether a file may call a function so.
func isName(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || !('0' <= r && r <= '9' || r == '-' || r == '_')) {
			return false
		}
	}
	return name != ""
}

// with returns names with one more, if that is new.
func with(names []string, name string) []string {
	if !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// trimmed returns what an error says, without the name of the package.
func trimmed(err error) string {
	text := err.Error()
	for _, prefix := range [...]string{"ratelimit: ", "core: ", "keyfuncs: ", "lists: ", "policy 0: ", "policy 0 "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return inFile.Replace(text)
}

// inFile calls the fields of a policy as a file does.
var inFile = strings.NewReplacer("Undelayed", "undelayed", "MaxWait", "maxWait", "ReserveFor", "reserveFor", "StrikeOnDenial", "strike: denials",
	"Strike", "strike", "Settle", "settle", "Cost", "cost", "Headroom", "headroom", "Unit ", "unit ", "Shadow", "shadow", "TellBan", "tellBan",
	"core.Shaping", "shaping", "core.Concurrent", "concurrent")

var errNothing = errors.New("it says no limit: write limit, ban or firstOf")
