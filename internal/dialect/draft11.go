package dialect

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// The fields of draft 11, of which older drafts have one or both in another syntax.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
)

// policy is a member of a List of policies: a name with parameters.
type policy struct {
	name       string
	parameters *httpsfv.Params
}

// mergeDraft11 lists the policies of own and then those of upstream. It returns false
// if own has none, or if upstream has none of the fields.
func mergeDraft11(own, upstream http.Header) bool {
	fields := []string{rateLimit, rateLimitPolicy}
	if !slices.ContainsFunc(fields, func(name string) bool { return len(upstream[name]) != 0 }) {
		return false // and there is nothing to parse
	}
	ours, ok := policiesIn(own, fields)
	if !ok {
		return false
	}
	theirs, ok := policiesIn(upstream, fields)
	if !ok { // a policy needs both fields
		replace(own, upstream, fields...)
		return true
	}
	renamed := make(map[string]string) // by their names in lower case
	taken := func(name string) bool { return has(ours, name) || has(theirs, name) }
	for i, field := range fields {
		merged := []byte(strings.Join(own[field], ", "))
		seen := make(map[string]bool)
		for _, p := range theirs[i] {
			id := strings.ToLower(p.name)
			if seen[id] {
				continue
			}
			seen[id] = true
			if renamed[id] == "" {
				renamed[id] = p.name
				if has(ours, p.name) {
					renamed[id] = DistinctName(p.name, taken)
				}
			}
			merged = appendItem(merged, renamed[id], p.parameters)
		}
		setList(upstream, field, merged)
	}
	return true
}

// policiesIn returns the policies in each of the fields. It returns false if all fields are
// empty, or if one is malformed.
func policiesIn(h http.Header, fields []string) ([][]policy, bool) {
	lists := make([][]policy, 0, len(fields))
	found := false
	for _, field := range fields {
		list, ok := parsePolicies(h[field])
		if !ok {
			return nil, false
		}
		found = found || len(list) != 0
		lists = append(lists, list)
	}
	return lists, found
}

// parsePolicies reads the lines of a List of names, each of which is a String or a Token.
// It returns false if they are malformed, or if a member is anything else.
func parsePolicies(lines []string) ([]policy, bool) {
	items, ok := parseList(lines)
	if !ok {
		return nil, false
	}
	list := make([]policy, 0, len(items))
	for _, item := range items {
		switch name := item.Value.(type) {
		case string:
			list = append(list, policy{name, item.Params})
		case httpsfv.Token:
			list = append(list, policy{string(name), item.Params})
		default:
			return nil, false
		}
	}
	return list, true
}

// has reports whether one of the lists has a policy of that name, without regard to case.
func has(lists [][]policy, name string) bool {
	for _, list := range lists {
		for i := range list {
			if strings.EqualFold(list[i].name, name) {
				return true
			}
		}
	}
	return false
}
