package headers

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The parser of RFC 9651, as far as it is needed to merge lists of policies.

// mostMembers bounds how many policies are read of one field. Who sends more
// means no good.
const mostMembers = 64

// member is an Item of a List: a name, which is a String or a Token, or a quota, which
// is a number, with parameters.
type member struct {
	name       string // or the number's digits
	parameters string // serialised: ";q=10;w=1"
}

// appendTo appends the member under some name, as an Item whose value is a String.
func (m *member) appendTo(b []byte, name string) []byte {
	return append(appendString(b, name), m.parameters...)
}

// parseList reads the lines of a List field. It returns false if they are
// malformed, or hold anything else than Items of the type whose serialisation
// starts as isStart says.
func parseList(lines []string, isStart func(byte) bool) ([]member, bool) {
	var list []member
	ok := cutMembers(lines, func(text string) (rest string, ok bool) {
		var m member
		m, rest, ok = cutMember(text, isStart)
		list = append(list, m)
		return rest, ok && len(list) <= mostMembers
	})
	if !ok {
		return nil, false
	}
	return list, true
}

// parseDictionary reads the lines of a Dictionary field. It returns what its members
// are, as it was serialised and without their parameters, or false if the lines are
// malformed.
func parseDictionary(lines []string) (map[string]string, bool) {
	members := make(map[string]string)
	ok := cutMembers(lines, func(text string) (rest string, ok bool) {
		key, rest := cutKey(text)
		value := "?1"
		if key == "" {
			return "", false
		}
		if strings.HasPrefix(rest, "=") {
			if value, rest, ok = cutValue(rest[1:]); !ok {
				return "", false
			}
		}
		members[key] = value // the last of a key counts
		_, rest, ok = cutParameters(rest)
		return rest, ok
	})
	return members, ok
}

// parseItem reads the lines of an Item field. It returns its bare item, as it is
// serialised, or false if the lines are malformed.
func parseItem(lines []string) (string, bool) {
	value, rest, ok := cutBareItem(strings.Trim(strings.Join(lines, ", "), " "))
	if !ok {
		return "", false
	}
	_, rest, ok = cutParameters(rest)
	return value, ok && rest == ""
}

// cutMembers has cut take one member after the other off the lines of a field. It
// returns false if they are malformed.
func cutMembers(lines []string, cut func(text string) (rest string, ok bool)) bool {
	rest := strings.Trim(strings.Join(lines, ", "), " ")
	for rest != "" {
		var ok bool
		if rest, ok = cut(rest); !ok {
			return false
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			break
		}
		after, comma := strings.CutPrefix(rest, ",")
		rest = strings.TrimLeft(after, " \t")
		if !comma || rest == "" {
			return false
		}
	}
	return true
}

// cutMember cuts a member off the start of a text.
func cutMember(text string, isStart func(byte) bool) (m member, rest string, ok bool) {
	value, rest, ok := cutBareItem(text)
	if !ok || !isStart(value[0]) {
		return m, "", false
	}
	m.name = value
	if value[0] == '"' {
		m.name = unquote(value)
	}
	m.parameters, rest, ok = cutParameters(rest)
	return m, rest, ok
}

// cutValue cuts a bare item or an Inner List off the start of a text.
func cutValue(text string) (value, rest string, ok bool) {
	rest, isList := strings.CutPrefix(text, "(")
	if !isList {
		return cutBareItem(text)
	}
	for {
		rest = strings.TrimLeft(rest, " ")
		if after, closed := strings.CutPrefix(rest, ")"); closed {
			return text[:len(text)-len(after)], after, true
		}
		if _, rest, ok = cutBareItem(rest); !ok {
			return "", "", false
		}
		if _, rest, ok = cutParameters(rest); !ok || rest == "" || rest[0] != ' ' && rest[0] != ')' {
			return "", "", false
		}
	}
}

// cutParameters cuts parameters off the start of a text, and serialises them.
func cutParameters(text string) (parameters, rest string, ok bool) {
	var b []byte
	rest = text
	for strings.HasPrefix(rest, ";") {
		var key, value string
		if key, rest = cutKey(strings.TrimLeft(rest[1:], " ")); key == "" {
			return "", "", false
		}
		b = append(append(b, ';'), key...)
		if !strings.HasPrefix(rest, "=") {
			continue // the Boolean true
		}
		if value, rest, ok = cutBareItem(rest[1:]); !ok {
			return "", "", false
		}
		b = append(append(b, '='), value...)
	}
	return string(b), rest, true
}

// cutKey cuts a key off the start of a text. It is empty if there is none.
func cutKey(text string) (key, rest string) {
	end := 0
	for end < len(text) && isKeyByte(text[end], end == 0) {
		end++
	}
	return text[:end], text[end:]
}

// cutBareItem cuts a bare item off the start of a text, as it is serialised.
func cutBareItem(text string) (value, rest string, ok bool) {
	if text == "" {
		return "", "", false
	}
	end := 0
	switch c := text[0]; {
	case c == '"':
		end = lenString(text)
	case c == ':':
		end = lenBytes(text)
	case c == '?':
		if len(text) < 2 || text[1] != '0' && text[1] != '1' {
			return "", "", false
		}
		end = 2
	case isTokenStart(c):
		end = lenOf(text, isTokenByte)
	case isNumberStart(c):
		end = lenNumber(text)
	case c == '@':
		end = lenDate(text)
	case c == '%':
		end = lenDisplayString(text)
	}
	return text[:end], text[end:], end > 0
}

// lenString returns the length of the String at the start of a text, or 0.
func lenString(text string) int {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return 0
			}
		case c < ' ' || c > '~':
			return 0
		}
	}
	return 0
}

// lenBytes returns the length of the Byte Sequence at the start of a text, or 0.
func lenBytes(text string) int {
	content, _, found := strings.Cut(text[1:], ":")
	if _, err := base64.StdEncoding.DecodeString(content); err != nil || !found || strings.ContainsAny(content, "\r\n") {
		return 0
	}
	return len(content) + 2
}

// lenNumber returns the length of the Integer or Decimal at the start of a text,
// or 0.
func lenNumber(text string) int {
	sign := 0
	if text[0] == '-' {
		sign = 1
	}
	whole := lenOf(text[sign:], isDigit)
	end := sign + whole
	if whole == 0 || whole > 15 {
		return 0
	}
	if !strings.HasPrefix(text[end:], ".") {
		return end
	}
	fraction := lenOf(text[end+1:], isDigit)
	if whole > 12 || fraction == 0 || fraction > 3 {
		return 0
	}
	return end + 1 + fraction
}

// lenDate returns the length of the Date at the start of a text, or 0.
func lenDate(text string) int {
	if len(text) < 2 || !isNumberStart(text[1]) {
		return 0
	}
	end := 1 + lenNumber(text[1:])
	if end == 1 || strings.Contains(text[:end], ".") {
		return 0
	}
	return end
}

// lenDisplayString returns the length of the Display String at the start of a text,
// or 0.
func lenDisplayString(text string) int {
	if !strings.HasPrefix(text, `%"`) {
		return 0
	}
	var said []byte
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if !utf8.Valid(said) {
				return 0
			}
			return i + 1
		case c == '%':
			digits := text[i+1 : min(i+3, len(text))]
			b, err := hex.DecodeString(digits)
			if err != nil || len(b) != 1 || digits != strings.ToLower(digits) {
				return 0
			}
			said = append(said, b[0])
			i += 2
		case c < ' ' || c > '~':
			return 0
		default:
			said = append(said, c)
		}
	}
	return 0
}

// parseCount returns the number that a bare item is, if it is an Integer that is not
// negative.
func parseCount(item string) (int64, bool) {
	n, err := strconv.ParseInt(item, 10, 64)
	return n, err == nil && 0 <= n && n <= largest
}

// unquote returns what a String says.
func unquote(text string) string {
	text = text[1 : len(text)-1]
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func lenOf(text string, is func(byte) bool) int {
	for i := range len(text) {
		if !is(text[i]) {
			return i
		}
	}
	return len(text)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isLetter(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }

func isNumberStart(c byte) bool { return c == '-' || isDigit(c) }

func isNameStart(c byte) bool { return c == '"' || isTokenStart(c) }

func isTokenStart(c byte) bool { return isLetter(c) || c == '*' }

func isTokenByte(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}

func isKeyByte(c byte, first bool) bool {
	if isLower(c) || c == '*' {
		return true
	}
	return !first && (isDigit(c) || c == '_' || c == '-' || c == '.')
}
