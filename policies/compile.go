package policies

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// compiler makes rules of a document.
type compiler struct {
	document *Document
	program  Options // the functions of the program
	assumes  bool    // the program has a function of each name
	needs    Needs   // the parts that the program has to supply
	errors   Errors
}

// dry is the limiter of policies that are only looked at.
var dry = sync.OnceValue(func() *core.Limiter { return core.New(core.NewMemory()) })

// compile returns the rules, and collects the errors in the document.
func (c *compiler) compile() guard.Rules {
	d := c.document
	c.checkNames()
	own := make([][]guard.Policy, len(d.Policies)) // of each policy of the document
	for i := range d.Policies {
		own[i] = c.policy(&d.Policies[i])
	}
	l := c.lists(&d.Lists)
	chooser, sets := c.chooser()
	for i := range d.Policies {
		if p := &d.Policies[i]; len(p.Match) == 0 {
			for set := range sets {
				sets[set] = append(sets[set], i)
			}
		}
	}
	if len(c.errors) > 0 {
		return guard.Rules{}
	}
	chooser.forgiveOwn(own, d, sets)
	rules := guard.Rules{Policies: own, Sets: sets, Lists: l, Choose: chooser.choose}
	for i := range d.Policies {
		rules.Names = append(rules.Names, d.Policies[i].where())
	}
	for _, members := range sets {
		slices.Sort(members)
		var policies []guard.Policy
		for _, i := range members {
			policies = append(policies, own[i]...)
		}
		c.checkTogether(members, policies)
	}
	c.checkHeaders()
	c.checkUse()
	if len(c.errors) > 0 {
		return guard.Rules{}
	}
	return rules
}

// checkNames adds an error for each limit of a document made by a program if the limit has another name than the document
// gives it, and for each name that has two limits.
func (c *compiler) checkNames() {
	check := func(name string, limit core.Limit) {
		if err := limit.Validate(); err != nil {
			c.errors.addf(tree.Position{}, "the limit %q: %s", name, trimmed(err))
		} else if limit != core.Unlimited && limit.Name() != name {
			c.errors.addf(tree.Position{}, "the limit %q is named %q: call Named(%q)", name, limit.Name(), name)
		}
	}
	for _, name := range sorted(c.document.Limits) {
		check(name, c.document.Limits[name])
	}
	for _, name := range sorted(c.document.Plans) {
		for _, plan := range sorted(c.document.Plans[name]) {
			check(name, c.document.Plans[name][plan])
		}
	}
	c.checkOwnNames()
}

// checkOwnNames adds an error for each limit that is written in a policy with the name of another limit: their keys would
// share a state.
func (c *compiler) checkOwnNames() {
	d := c.document
	known := make(map[string]string)
	for name, limit := range d.Limits {
		known["limit "+name] = limit.String()
	}
	for name := range d.Plans {
		known["limit "+name] = "plans"
	}
	for name, ban := range d.Bans {
		known["ban "+name] = ban.String()
	}
	check := func(p *Policy, field, name, text string) {
		if other, taken := known[field+" "+name]; taken && other != text {
			c.errors.addf(p.at.of(field), "%q is the name of %s already: write %s: %s if that is meant, or give this one another name",
				name, other, field, name)
		}
		known[field+" "+name] = text
	}
	for i := range d.Policies {
		for _, p := range append([]Policy{d.Policies[i]}, d.Policies[i].FirstOf...) {
			if limit, err := core.ParseLimit(p.Limit); err == nil && limit != limit.Identity() && known["limit "+p.Limit] == "" {
				check(&p, "limit", limit.Name(), limit.String())
			}
			if ban, err := core.ParseBan(p.Ban); err == nil && ban != ban.Named("") {
				check(&p, "ban", ban.Limit().Name(), ban.String())
			}
		}
	}
}

// where says which policy is meant.
func (p *Policy) where() string {
	at := p.at.of("")
	if at.Line == 0 {
		return strconv.Quote(p.Title())
	}
	return fmt.Sprintf("%q (line %d)", p.Title(), at.Line)
}

// Title returns the policy's name for readers: its Name, or else its limit or ban.
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

// checkTogether adds an error if the policies of one request do not go together.
func (c *compiler) checkTogether(members []int, policies []guard.Policy) {
	before := len(c.errors)
	given := make(map[string]*Policy)
	for _, i := range members {
		p := &c.document.Policies[i]
		if p.Shadow || len(p.FirstOf) > 0 { // package guard checks policies that share keys with alternatives
			continue
		}
		name := strings.ToLower(cmp.Or(p.Limit, p.Ban))
		if name != "" && c.hasName(p) && given[name] != nil {
			c.errors.addf(p.at.of("limit"), "%q is the name of the limit of %s, too, which the same requests meet:"+
				" give one of the two limits another name", p.Limit+p.Ban, given[name].where())
		}
		given[name] = p
	}
	if len(policies) == 0 || len(c.errors) > before {
		return
	}
	if err := makeSense(policies); err != nil {
		last := &c.document.Policies[members[len(members)-1]]
		c.errors.addf(last.at.of(""), "the same requests meet %s: %s", c.called(members), trimmed(err))
	}
}

// makeSense returns the reason why policies make no sense for package guard, or nil.
func makeSense(policies []guard.Policy) error {
	policies = slices.Clone(policies)
	for i := range policies {
		policies[i].OnError = 0 // which is known to be one
	}
	_, err := guard.New(dry(), guard.Options{Logger: slog.New(slog.DiscardHandler)}, policies...)
	return err
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
			c.errors.addf(l.at.of(""), "lists have neither allow nor deny: write one of them, or leave lists out")
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
			c.errors.addf(l.at.of("address"), "%s", trimmed(err))
		}
		of.Address = address
	}
	if l.Key != "" {
		of.By = c.key(l.at, l.Key)
	}
	for _, list := range [...]guard.List{of.Allow, of.Deny} {
		if list != nil && list.Keys() > 0 && l.Key == "" {
			c.errors.addf(l.at.of(""), "lists have keys: name the key to look up among them, as in key: user")
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
	if err == nil {
		return all
	}
	for i, entry := range entries {
		if _, err := lists.Parse(strings.NewReader(entry)); err != nil {
			c.errors.addf(l.at.of(entryOf(name, i)), "%s: %s", name, strings.TrimPrefix(trimmed(err), "line 1: "))
		}
	}
	return lists.Of()
}

// key returns a key function.
func (c *compiler) key(at places, text string) keyfuncs.Func { return c.keyOf(at, "key", text) }

// keyOf returns the key function that a field says.
func (c *compiler) keyOf(at places, field, text string) keyfuncs.Func {
	by, err := keyfuncs.Parse(text, func(name string) keyfuncs.Func {
		if f := c.program.Keys[name]; f != nil || !c.assumes || !isName(name) {
			return f
		}
		c.needs.Keys = with(c.needs.Keys, name)
		return func(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }
	})
	if err != nil {
		c.errors.addf(at.of(field), "%s", trimmed(err))
		if len(c.program.Keys) > 0 || !c.assumes {
			known := slices.Sorted(maps.Keys(c.program.Keys))
			c.errors[len(c.errors)-1].Reason += fmt.Sprintf("; the program gives functions to %q", known)
		}
	}
	return by
}

// isName reports whether a file may call a function so.
func isName(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		other := '0' <= r && r <= '9' || r == '-' || r == '_'
		if !letter && (i == 0 || !other) {
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

// trimmed returns the text of an error, without the name of the package.
func trimmed(err error) string {
	text := err.Error()
	for _, prefix := range [...]string{"ratelimit: ", "core: ", "keyfuncs: ", "lists: ", "policy 0: ", "policy 0 "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return inFile.Replace(text)
}

// inFile calls the fields of a policy as a file does.
var inFile = strings.NewReplacer("Ban.StrikeOnDenial", "strike: denials", "Ban.Strike", "strike", "Ban.Tell", "tellBan", "Settle.Cost", "settle", "Settle.", "",
	"Queue.", "", "Undelayed", "undelayed", "MaxWait", "maxWait", "ReserveFor", "reserveFor",
	"StrikeOnDenial", "strike: denials", "Strike", "strike", "Settle", "settle", "Cost", "cost", "Headroom", "headroom",
	"Share", "share", "Weight", "weight", "Unit ", "unit ",
	"Shadow", "shadow", "core.Shaping", "shaping", "core.Concurrent", "concurrent")

var errNothing = errors.New("it says no limit: write limit, ban or firstOf")
