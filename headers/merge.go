package headers

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Merge makes one set of fields out of own, which is what w has written about a
// request here and nothing else, and the response of an upstream server that has
// limits, too. The result is in upstream; own is left as it is.
//
// The lists of [Draft11] become one list, ours first. A policy of upstream's whose
// name is taken gets a number after it, the same one in both fields, and of two
// that upstream calls the same the first stays. Of the other dialects, which have
// room for one policy, all fields come from whichever has less remaining; only the
// list of policies that [Draft6] has is joined, and of two with one quota the
// tighter side's stays. A field of upstream's that w writes, but that is not
// well-formed in w's dialect, is dropped, since it would spoil ours, and with it what
// says nothing without it; fields that w does not write stay.
//
// A Writer of your own has its fields in place of upstream's. Of writers joined by
// [Join] each field is merged as the last of those does that write it, so that no
// field of own is lost.
func Merge(w Writer, own, upstream http.Header) {
	writers := []Writer{w}
	if j, ok := w.(*joined); ok {
		writers = j.writers
	}
	own, told := maps.Clone(own), make(http.Header)
	delete(own, "Retry-After")
	for _, w := range slices.Backward(writers) {
		m, ok := w.(merger)
		merged := ok && m.merge(own, upstream)
		for _, name := range Names(w) {
			if values, ok := own[name]; ok && !merged {
				upstream[name] = values
			}
			// The writers before this one are not to take it for theirs.
			if values, ok := upstream[name]; ok {
				told[name] = values
			}
			delete(own, name)
			delete(upstream, name)
		}
	}
	maps.Copy(upstream, own) // what a Writer of one's own writes at times only
	maps.Copy(upstream, told)
}

// merger is a Writer that knows how to merge its fields. It returns false where own
// has nothing that it can merge, and has not touched upstream then.
type merger interface {
	merge(own, upstream http.Header) bool
}

// replace puts fields of own in place of upstream's. Those that own lacks are deleted.
func replace(own, upstream http.Header, names ...string) {
	for _, name := range names {
		delete(upstream, name)
		if values, ok := own[name]; ok {
			upstream[name] = values
		}
	}
}

// isUpstreamTighter reports whether upstream has less remaining than own. It has not
// if it does not say so in fields that are well-formed. It returns false for ok where
// nothing of ours was written.
func isUpstreamTighter(own, upstream http.Header, remaining func(http.Header) (int64, bool)) (tighter, ok bool) {
	here, ok := remaining(own)
	there, understood := remaining(upstream)
	return ok && understood && there < here, ok
}

// remainingIn returns the count in a field of Remaining. It returns false if there is
// none, or if others are there that are no counts.
func remainingIn(h http.Header, count func(lines []string) (int64, bool), remaining string, others ...string) (int64, bool) {
	for _, name := range others {
		if lines := h[name]; len(lines) != 0 {
			if _, ok := count(lines); !ok {
				return 0, false
			}
		}
	}
	return count(h[remaining])
}

// policy is a member of a List of policies: a name, which is a String or a Token, with
// parameters.
type policy struct {
	name       string
	parameters *httpsfv.Params
}

// mergeLists lists the policies of own and then those of upstream, in fields that
// are Lists of names with parameters. It returns false where nothing of ours was
// written, or where upstream has none of the fields.
func mergeLists(own, upstream http.Header, names ...string) bool {
	if !slices.ContainsFunc(names, func(name string) bool { return len(upstream[name]) != 0 }) {
		return false // and there is nothing to parse
	}
	ours, ok := parseLists(own, names)
	if !ok {
		return false
	}
	theirs, ok := parseLists(upstream, names)
	if !ok { // what it says of one policy in two fields is dropped as one
		replace(own, upstream, names...)
		return true
	}
	renamed := make(map[string]string) // by their names in lower case
	taken := func(name string) bool { return has(ours, name) || has(theirs, name) }
	for i, name := range names {
		merged := []byte(strings.Join(own[name], ", "))
		told := make(map[string]bool)
		for _, p := range theirs[i] {
			id := strings.ToLower(p.name)
			if told[id] {
				continue
			}
			told[id] = true
			if renamed[id] == "" {
				renamed[id] = p.name
				if has(ours, p.name) {
					renamed[id] = DistinctName(p.name, taken)
				}
			}
			merged = appendItem(merged, renamed[id], p.parameters)
		}
		set(upstream, name, merged)
	}
	return true
}

// parseLists reads fields of a header. It returns false if all are missing or any is
// malformed.
func parseLists(h http.Header, names []string) ([][]policy, bool) {
	lists := make([][]policy, 0, len(names))
	there := false
	for _, name := range names {
		list, ok := parsePolicies(h[name])
		if !ok {
			return nil, false
		}
		there = there || len(list) != 0
		lists = append(lists, list)
	}
	return lists, there
}

// parsePolicies reads the lines of a List of names with parameters. It returns false if
// they are malformed, or if a member is anything else.
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

// has reports whether a policy of a name is listed. Names have no case.
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

// DistinctName returns a name that is not taken: the name itself, or else with the
// first number after it that makes it one, as in "burst-2". The fields compare
// names without regard to case, so taken should, too.
func DistinctName(name string, taken func(string) bool) string {
	candidate := name
	for n := 2; taken(candidate); n++ {
		candidate = name + "-" + strconv.Itoa(n)
	}
	return candidate
}
