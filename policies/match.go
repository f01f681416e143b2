package policies

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/policies/internal/route"
)

// variants are what a pattern has: the more specific first.
type variants []variant

type variant struct {
	header []wanted
	group  int
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
			c.errors.addf(c.document.Policies[first].at.of("match"), "%v", err)
		}
	}
	return table, groups
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
