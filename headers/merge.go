package headers

import (
	"net/http"
	"strconv"
	"strings"
)

// Merge makes one set of fields out of own, which is what w has written about a
// request here, and the response of an upstream server that has limits, too. The
// result is in upstream; own is left as it is.
//
// The lists of [Draft11] become one list, ours first. A policy of upstream's whose
// name is taken gets a number after it, the same one in both fields, and of two
// that upstream calls the same the first stays. Of the other dialects, which have
// room for one policy, all fields come from whichever has less remaining; only the
// list of policies that [Draft6] has is joined, and of two with one quota the
// tighter side's stays. A field of upstream's that w writes, but that is not
// well-formed in w's dialect, is dropped, since it would spoil ours; fields that w
// does not write stay.
//
// A Writer of your own has its fields in place of upstream's. Whoever joins
// writers by [Join] gets the fields of each merged.
func Merge(w Writer, own, upstream http.Header) {
	if m, ok := w.(merger); ok {
		m.merge(own, upstream)
		return
	}
	for _, name := range Names(w) {
		if name != "Retry-After" {
			replace(own, upstream, name)
		}
	}
}

// merger is a Writer that knows how to merge its fields.
type merger interface {
	merge(own, upstream http.Header)
}

// replace puts fields of own in place of upstream's, if own has them.
func replace(own, upstream http.Header, names ...string) {
	if _, ok := own[names[0]]; !ok {
		return
	}
	for _, name := range names {
		delete(upstream, name)
		if values, ok := own[name]; ok {
			upstream[name] = values
		}
	}
}

// mergeTightest leaves in upstream the fields of whichever has less remaining, and
// in doubt those of own. The first name is of a field that is always there. It
// returns both, the tighter one first: no looser one where upstream says nothing
// that can be understood, and none at all where nothing of ours was written.
func mergeTightest(own, upstream http.Header, remaining func(http.Header) (int64, bool), names ...string) (tighter, looser http.Header) {
	here, ok := remaining(own)
	if !ok {
		return nil, nil
	}
	there, understood := remaining(upstream)
	for _, name := range names {
		understood = understood && len(upstream[name]) <= 1
	}
	if understood && there < here {
		return upstream, own
	}
	replace(own, upstream, names...)
	if !understood {
		return own, nil
	}
	return own, upstream
}

// single returns the number in a field that has one.
func single(h http.Header, name string) (int64, bool) {
	if len(h[name]) != 1 {
		return 0, false
	}
	return parseCount(strings.Trim(h[name][0], " \t"))
}

// mergeLists lists the policies of own and then those of upstream, in fields that
// are Lists of names with parameters.
func mergeLists(own, upstream http.Header, names ...string) {
	ours, ok := parseLists(own, names)
	if !ok {
		return // nothing of ours was written
	}
	theirs, ok := parseLists(upstream, names)
	if !ok {
		replace(own, upstream, names...)
		return
	}
	renamed := make(map[string]string) // by their names in lower case
	taken := func(name string) bool { return has(ours, name) || has(theirs, name) }
	for i, name := range names {
		var b []byte
		for _, m := range ours[i] {
			b = m.appendTo(appendComma(b), m.name)
		}
		told := make(map[string]bool)
		for _, m := range theirs[i] {
			id := strings.ToLower(m.name)
			if told[id] {
				continue
			}
			told[id] = true
			if renamed[id] == "" {
				renamed[id] = m.name
				if has(ours, m.name) {
					renamed[id] = DistinctName(m.name, taken)
				}
			}
			b = m.appendTo(appendComma(b), renamed[id])
		}
		set(upstream, name, b)
	}
}

// parseLists reads fields of a header. It returns false if the first is missing or
// any is malformed.
func parseLists(h http.Header, names []string) ([][]member, bool) {
	lists := make([][]member, 0, len(names))
	for i, name := range names {
		list, ok := parseList(h[name], isNameStart)
		if !ok || i == 0 && len(list) == 0 {
			return nil, false
		}
		lists = append(lists, list)
	}
	return lists, true
}

// has reports whether a policy of a name is listed. Names have no case.
func has(lists [][]member, name string) bool {
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
