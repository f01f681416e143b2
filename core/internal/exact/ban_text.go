package exact

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// append appends the terms as a script reads them: numbers, each after a space.
func (t *BanTerms) append(b []byte) []byte {
	extend := int64(0)
	if t.Extend {
		extend = 1
	}
	return appendSpaced(b, t.First.Microseconds(), int64(t.Factor), t.Longest.Microseconds(), t.Forget.Microseconds(), extend)
}

// appendText appends the terms in their canonical form: ", first 10m, factor 2, longest 7d, forget 1d".
func (t *BanTerms) appendText(b []byte) []byte {
	b = appendDuration(append(b, ", first "...), t.First)
	b = strconv.AppendInt(append(b, ", factor "...), int64(t.Factor), 10)
	b = appendDuration(append(b, ", longest "...), t.Longest)
	b = appendDuration(append(b, ", forget "...), t.Forget)
	if t.Extend {
		b = append(b, ", extend"...)
	}
	return b
}

// appendName appends the terms as they are a part of a derived name: ":10m*2:7d:1d".
func (t *BanTerms) appendName(b []byte) []byte {
	b = appendDuration(append(b, ':'), t.First)
	b = strconv.AppendInt(append(b, '*'), int64(t.Factor), 10)
	b = appendDuration(append(b, ':'), t.Longest)
	b = appendDuration(append(b, ':'), t.Forget)
	if t.Extend {
		b = append(b, ":extend"...)
	}
	return b
}

// parseBan reads the text after the strikes of a ban: their window and the terms, in their order.
func parseBan(text string) (window time.Duration, t BanTerms, err error) {
	parts := strings.Split(text, ",")
	extend := len(parts) == 6 && strings.TrimSpace(parts[5]) == "extend"
	if len(parts) != 5 && !extend {
		return 0, BanTerms{}, fmt.Errorf("want strikes, their window and the terms of a ban, as in %q, and perhaps %q",
			"ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d", ", extend")
	}
	t.Extend = extend
	if window, err = parseDuration(strings.TrimSpace(parts[0])); err != nil {
		return 0, BanTerms{}, err
	}
	for i, name := range [...]string{"first", "factor", "longest", "forget"} {
		fields := strings.Fields(parts[i+1])
		if len(fields) != 2 || fields[0] != name {
			return 0, BanTerms{}, fmt.Errorf("%q is not the word %q and its value", strings.TrimSpace(parts[i+1]), name)
		}
		switch name {
		case "first":
			t.First, err = parseDuration(fields[1])
		case "factor":
			t.Factor, err = parseNumber(name, fields[1])
		case "longest":
			t.Longest, err = parseDuration(fields[1])
		default:
			t.Forget, err = parseDuration(fields[1])
		}
		if err != nil {
			return 0, BanTerms{}, err
		}
	}
	return window, t, nil
}
