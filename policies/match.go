package policies

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies/internal/route"
)

// chooser finds the sets of policies that a request meets.
type chooser struct {
	table    route.Table
	variants []variants // of each pattern
	alone    [][]int    // each set by itself
}

// variants are the headers by which the sets of one pattern differ: the more specific first.
type variants []variant

type variant struct {
	header []wanted
	set    int
}

// wanted is a field that a request must have.
type wanted struct{ name, value string }

// matches reports whether a request has the fields. Of several lines of a field the first counts, as for
// [http.Header.Get], which applications read.
func (v *variant) matches(r *http.Request) bool {
	for _, w := range v.header {
		lines := r.Header[w.name]
		if len(lines) == 0 || w.value == "*" && lines[0] == "" || w.value != "*" && lines[0] != w.value {
			return false
		}
	}
	return true
}

// of returns the set of a request, or -1.
func (v variants) of(r *http.Request) int {
	for i := range v {
		if v[i].matches(r) {
			return v[i].set
		}
	}
	return -1
}

// choose returns the sets that a request meets, or nil if its path is too long to find them. The first set has the policies without a
// match, which all other sets have, too.
func (c *chooser) choose(r *http.Request, matched keyfuncs.Matched) []int {
	var room [4]int
	found, readable := c.table.Met(room[:0], r, knownOf(r, matched))
	switch {
	case !readable:
		return nil
	case len(found) == 0:
		return c.alone[0]
	case len(found) == 1:
		return c.alone[c.setOf(found[0], r)]
	}
	sets := make([]int, len(found))
	for i, number := range found {
		sets[i] = c.setOf(number, r)
	}
	return sets
}

// chooseOwn returns those sets that a request meets and that are certainly about the handler that has run.
func (c *chooser) chooseOwn(r *http.Request) []int {
	sets := c.table.Own(r, knownOf(r, given.MatchedFrom(r.Context())))
	for i, number := range sets {
		sets[i] = c.setOf(number, r)
	}
	return sets
}

// setOf returns the set of a request that meets a pattern.
func (c *chooser) setOf(number int, r *http.Request) int { return c.variants[number-1].of(r) }

// knownOf returns the known part of a request's route.
func knownOf(r *http.Request, matched keyfuncs.Matched) route.Known {
	known := route.Known{Values: r}
	if matched != nil {
		whole, ok := matched.(interface{ WholePath() bool })
		known.Route, known.Values, known.Whole = matched.Route(), matched, ok && whole.WholePath()
	} else if outer := given.MatchedFrom(r.Context()); outer != nil { // of a path that may have been changed since
		known.Route, known.Values = outer.Route(), outer
	} else if r.Pattern != "" {
		known.Route = given.RouteFromPattern(r.Pattern)
	}
	if known.Route == given.Unmatched {
		known.Route = ""
	}
	return known
}

// chooser returns the chooser that finds the set of a request, and the places of the policies in each set.
func (c *compiler) chooser() (*chooser, [][]int) {
	sets := [][]int{nil}
	byPattern := make(map[string]variants)
	var patterns []string
	for i := range c.document.Policies {
		p := &c.document.Policies[i]
		for _, m := range p.Match {
			v, known := byPattern[m.Pattern]
			if !known {
				patterns = append(patterns, m.Pattern)
			}
			header := c.header(p, m)
			same := slices.IndexFunc(v, func(other variant) bool { return slices.Equal(other.header, header) })
			if same < 0 {
				c.checkVariant(p, v, header, sets)
				v = append(v, variant{header, len(sets)})
				byPattern[m.Pattern] = v
				sets = append(sets, nil)
				same = len(v) - 1
			}
			if set := v[same].set; !slices.Contains(sets[set], i) {
				sets[set] = append(sets[set], i)
			}
		}
	}
	chooser := new(chooser)
	chooser.table.AnyCase = c.program.AnyCase
	for _, pattern := range patterns {
		v := byPattern[pattern]
		if _, err := chooser.table.Add(pattern); err != nil {
			first := sets[v[0].set][0]
			c.errors.addf(c.document.Policies[first].at.of("match"), "%v", err)
			continue
		}
		slices.SortStableFunc(v, func(a, b variant) int { return specificity(b.header) - specificity(a.header) })
		chooser.variants = append(chooser.variants, v)
	}
	chooser.table.Accept = func(r *http.Request, number int) bool { return chooser.setOf(number, r) >= 0 }
	for set := range sets {
		chooser.alone = append(chooser.alone, []int{set})
	}
	return chooser, sets
}

// header returns the fields that a match wants, in order.
func (c *compiler) header(p *Policy, m Match) []wanted {
	header := make([]wanted, 0, len(m.Header))
	for _, name := range sorted(m.Header) {
		if canonical := http.CanonicalHeaderKey(name); canonical == "Host" || strings.ContainsAny(name, " \t\r\n:") || name == "" {
			c.errors.addf(p.at.of("match"), "%q is no header to match by: write a host into the pattern, as in api.example.com/", name)
		}
		header = append(header, wanted{http.CanonicalHeaderKey(name), m.Header[name]})
	}
	return header
}

// specificity is greater the more a header demands.
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
func (c *compiler) checkVariant(p *Policy, others variants, header []wanted, sets [][]int) {
	for _, other := range others {
		if apart(header, other.header) || covers(header, other.header) || covers(other.header, header) {
			continue
		}
		first := &c.document.Policies[sets[other.set][0]]
		c.errors.addf(p.at.of("match"), "a request can have these headers and those of %s, and neither match is more specific:"+
			" add the headers of the one to the other", first.where())
	}
}

// apart reports whether no request has both.
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
