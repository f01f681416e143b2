package dialect

import (
	"net/http"

	"github.com/dunglas/httpsfv"
)

// largest is the largest Integer of RFC 9651.
const largest = 999_999_999_999_999

// Bounds on the fields of other servers. A field beyond them counts as malformed.
const (
	// mostPolicies bounds how many policies one field may list.
	mostPolicies = 64
	// mostBytes bounds the length of one field. A parsed field takes about a hundred
	// times the memory of its text.
	mostBytes = 16 << 10
)

// parseList reads the lines of a List of Items. It returns false if they are malformed,
// or if a member is an Inner List.
func parseList(lines []string) ([]httpsfv.Item, bool) {
	if isTooLong(lines) {
		return nil, false
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > mostPolicies {
		return nil, false
	}
	items := make([]httpsfv.Item, 0, len(list))
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

// isTooLong reports whether the lines of a field are longer than mostBytes.
func isTooLong(lines []string) bool {
	length := 0
	for _, line := range lines {
		length += len(line) + len(", ")
	}
	return length > mostBytes
}

// count returns the number that a value is, if it is an Integer that is not negative.
func count(value any) (int64, bool) {
	n, ok := value.(int64)
	return n, ok && n >= 0
}

// parameter returns the number that a parameter is, if it is an Integer that is not
// negative.
func parameter(parameters *httpsfv.Params, key string) (int64, bool) {
	value, _ := parameters.Get(key)
	return count(value)
}

// appendItem appends a member to a List. One that cannot be written is left out.
func appendItem(list []byte, value any, parameters *httpsfv.Params) []byte {
	text, err := httpsfv.Marshal(httpsfv.Item{Value: value, Params: parameters})
	if err != nil {
		return list
	}
	if len(list) != 0 {
		list = append(list, ", "...)
	}
	return append(list, text...)
}

// setList gives the field the list as its value, or removes the field if the list is
// empty.
func setList(h http.Header, name string, list []byte) {
	delete(h, name)
	if len(list) != 0 {
		h[name] = []string{string(list)}
	}
}
