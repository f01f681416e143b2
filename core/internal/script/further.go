package script

import (
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Again returns the groups of a call that have to be asked again, with the windows around an instant, since the server's
// clock was outside the windows that were sent. Nothing of them was charged. text is the reply.
func Again(groups [][]call.Check, text string) (again [][]call.Check, instant int64) {
	if strings.IndexByte(text, byte(Further)) < 0 {
		return nil, 0
	}
	numbers := Reader{Rest: text}
	for _, group := range groups {
		missing := false
		for i := range group {
			if usage, mark := numbers.usage(group[i].Spec); mark == Further {
				missing, instant = true, usage.Second
			}
			if group[i].Noted() {
				numbers.next()
			}
		}
		if missing {
			again = append(again, group)
		}
	}
	return again, instant
}

// Splice returns the reply to a call after its last groups were asked again and have a reply of their own.
func Splice(groups [][]call.Check, text string, again [][]call.Check, reply string) string {
	old, own := Reader{Rest: text}, Reader{Rest: reply}
	parts := make([]string, 0, len(groups))
	for _, group := range groups {
		numbers := 0
		for i := range group {
			numbers += numbersOf(&group[i])
		}
		part := old.Cut(numbers)
		if slices.ContainsFunc(again, func(other []call.Check) bool { return &other[0] == &group[0] }) {
			part = own.Cut(numbers)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}
