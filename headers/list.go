package headers

import (
	"encoding/base64"
	"strings"
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
	rest := strings.Trim(strings.Join(lines, ", "), " ")
	for rest != "" {
		var m member
		var ok bool
		m, rest, ok = cutMember(rest, isStart)
		if !ok || len(list) == mostMembers {
			return nil, false
		}
		list = append(list, m)
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			break
		}
		after, comma := strings.CutPrefix(rest, ",")
		rest = strings.TrimLeft(after, " \t")
		if !comma || rest == "" {
			return nil, false
		}
	}
	return list, true
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
	var parameters []byte
	for strings.HasPrefix(rest, ";") {
		rest = strings.TrimLeft(rest[1:], " ")
		end := 0
		for end < len(rest) && isKeyByte(rest[end], end == 0) {
			end++
		}
		if end == 0 {
			return m, "", false
		}
		parameters = append(append(parameters, ';'), rest[:end]...)
		rest = rest[end:]
		if !strings.HasPrefix(rest, "=") {
			continue // the Boolean true
		}
		if value, rest, ok = cutBareItem(rest[1:]); !ok {
			return m, "", false
		}
		parameters = append(append(parameters, '='), value...)
	}
	m.parameters = string(parameters)
	return m, rest, true
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
	case c == '-' || isDigit(c):
		end = lenNumber(text)
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
