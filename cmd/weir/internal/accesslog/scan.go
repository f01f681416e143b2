package accesslog

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// A scanner finds the values at some paths of a JSON object in one pass. It makes no tree of the other values, and looks no
// further into them than to find their ends. A server writes the same names in the same order, and many values again and again: the scanner
// remembers those of the line before, and compares the line with them before it reads it.
type scanner struct {
	root   branch
	values [][]byte // as they stand in the line, by their numbers; nil if there is none
	found  []int    // the numbers of those that there are
	line   uint64

	strict bool // it reads no line that the parser of whole lines does not read
	unsure bool // a strict one has found a name with an escape, and leaves the line to the parser
}

// branch is a name in an object, and the names below it.
type branch struct {
	name     string
	number   int                    // of the value, or -1
	branches [lengths + 1][]*branch // by the length of their names: longer ones are all in the last
	inner    bool                   // whether there are any
	seen     uint64                 // the line in which an object with this name was seen
	before   []field                // of the object with this name in earlier lines, in the order of the line
	depth    int                    // of the object

	prefixes []string // of the names that are listed; nil: none is
	listed   []member // those in the line
	list     uint64   // the line that they are of
}

// member is a field of an object.
type member struct{ name, value []byte }

// field is a field of an object, as it stood in an earlier line. The zero field is none.
type field struct {
	text []byte  // its name, or its name and value: "status":200
	name int     // where the value begins
	of   *branch // its branch, or nil if no path has the name
}

const (
	// mostRemembered is how many fields of an object are remembered, and longestRemembered is the length of the longest one.
	mostRemembered, longestRemembered = 64, 256
)

// lengths is the longest name that is found by its length.
const lengths = 24

func newScanner() *scanner { return &scanner{root: branch{number: -1, depth: 1}} }

// at returns the branch of a path, which it adds if it is new.
func (s *scanner) at(path []string) *branch {
	at := &s.root
	for _, name := range path {
		next := at.find([]byte(name))
		if next == nil {
			next = &branch{name: name, number: -1, depth: at.depth + 1}
			of := &at.branches[min(len(name), lengths)]
			*of, at.inner = append(*of, next), true
		}
		at = next
	}
	return at
}

// addList has the fields of an object be listed of which the names begin with one of some prefixes. It returns the branch of the object.
func (s *scanner) addList(path []string, prefixes ...string) *branch {
	at := s.at(path)
	at.prefixes, at.inner = prefixes, true
	return at
}

// list returns the fields of an object that are listed.
func (s *scanner) list(of *branch) []member {
	if of.list != s.line {
		return nil
	}
	return of.listed
}

// add adds a path, and returns the number of its value.
func (s *scanner) add(path []string) int {
	at := s.at(path)
	if at.number < 0 {
		at.number = len(s.values)
		s.values = append(s.values, nil)
	}
	return at.number
}

func (b *branch) find(name []byte) *branch {
	for _, one := range b.branches[min(len(name), lengths)] {
		if one.name == string(name) {
			return one
		}
	}
	return nil
}

// scan finds the values in a line. It reports false if that is no object.
func (s *scanner) scan(line []byte) bool {
	for _, number := range s.found {
		s.values[number] = nil
	}
	s.found = s.found[:0]
	s.line++
	s.unsure = false
	i := skipSpace(line, 0)
	if i == len(line) || line[i] != '{' {
		return false
	}
	i = s.object(&s.root, line, i)
	return i >= 0 && skipSpace(line, i) == len(line)
}

// object reads an object that begins at i, and returns where it ends, or -1.
func (s *scanner) object(b *branch, line []byte, i int) int {
	clear(b.listed) // it is a part of another line
	b.listed, b.list = b.listed[:0], s.line
	i = skipSpace(line, i+1)
	if i < len(line) && line[i] == '}' {
		return i + 1
	}
	for place := 0; ; place++ {
		if i == len(line) || line[i] != '"' {
			return -1
		}
		from := i
		one, value, end := b.again(place, line[from:])
		if value == 0 {
			if one, value = b.nameIn(line[from:]); value < 0 {
				return -1
			}
			if s.strict && bytes.IndexByte(line[from:from+value], '\\') >= 0 {
				s.unsure = true
				return -1
			}
		}
		value += from
		switch {
		case end > 0:
			i = from + end
		case one != nil && one.inner && one.seen != s.line && value < len(line) && line[value] == '{':
			b.remember(place, line[from:value], value-from, one)
			i = s.object(one, line, value)
		default:
			if s.strict {
				i = skipStrictly(line, value, b.depth+1)
			} else {
				i = skipValue(line, value)
			}
			if i >= 0 {
				b.remember(place, line[from:i], value-from, one)
			}
		}
		if i < 0 {
			return -1
		}
		if one != nil {
			one.seen = s.line
			if one.number >= 0 && s.values[one.number] == nil { // the first one counts
				s.values[one.number] = line[value:i]
				s.found = append(s.found, one.number)
			}
		}
		if b.prefixes != nil {
			b.note(line[from+1:value], line[value:i])
		}
		if i = skipSpace(line, i); i == len(line) {
			return -1
		}
		switch line[i] {
		case ',':
			i = skipSpace(line, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// note lists a field, if its name begins with one of the prefixes. The name ends with a quote, and more may follow.
func (b *branch) note(name, value []byte) {
	for _, prefix := range b.prefixes {
		if len(name) > len(prefix) && string(name[:len(prefix)]) == prefix {
			b.listed = append(b.listed, member{name[:endOfString(name, 0)], value})
			return
		}
	}
}

// nameIn reads the name of a field. It returns the branch of the name, if a path has it, and where the value begins, or -1.
func (b *branch) nameIn(text []byte) (one *branch, value int) {
	end := endOfString(text, 1)
	if end < 0 {
		return nil, -1
	}
	colon := skipSpace(text, end+1)
	if colon == len(text) || text[colon] != ':' {
		return nil, -1
	}
	return b.find(named(text[1:end])), skipSpace(text, colon+1)
}

// again returns what nameIn does of a text that begins with the name which stood in the same place of an earlier line, and otherwise 0. If it
// begins with the value, too, end is where that ends.
func (b *branch) again(place int, text []byte) (one *branch, value, end int) {
	if place >= len(b.before) {
		return nil, 0, 0
	}
	f := &b.before[place]
	if n := len(f.text); n > f.name && n < len(text) && (text[n] == ',' || text[n] == '}') && bytes.Equal(text[:n], f.text) {
		return f.of, f.name, n
	}
	if f.name == 0 || !bytes.HasPrefix(text, f.text[:f.name]) {
		return nil, 0, 0
	}
	return f.of, skipSpace(text, f.name), 0
}

// remember remembers a field, unless it is long.
func (b *branch) remember(place int, text []byte, value int, of *branch) {
	if place >= mostRemembered {
		return
	}
	for place >= len(b.before) {
		b.before = append(b.before, field{})
	}
	f := &b.before[place]
	switch {
	case value > longestRemembered:
		value, text = 0, nil
	case len(text) > longestRemembered || of != nil && of.inner: // an object that has to be looked into
		text = text[:value]
	}
	f.text, f.name, f.of = append(f.text[:0], text...), value, of
}

// skipSpace returns where the next byte is that is no space, or the end.
func skipSpace(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\n') {
		i++
	}
	return i
}

// endOfString returns where the quote is that ends a string, or -1.
func endOfString(line []byte, from int) int {
	for i := from; ; {
		next := bytes.IndexByte(line[i:], '"')
		if next < 0 {
			return -1
		}
		if i += next; i == from || line[i-1] != '\\' || !escaped(line[from:i]) {
			return i
		}
		i++
	}
}

// skipValue returns where a value ends that begins at i, or -1.
func skipValue(line []byte, i int) int {
	if i == len(line) {
		return -1
	}
	switch line[i] {
	case '"':
		if end := endOfString(line, i+1); end >= 0 {
			return end + 1
		}
		return -1
	case '{', '[':
		return skipNested(line, i)
	}
	from := i
	for i < len(line) {
		switch line[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			if i == from {
				return -1
			}
			return i
		case '"', '{', '[', ':':
			return -1
		}
		i++
	}
	return -1
}

// skipNested returns where an object or a list ends that begins at i, or -1.
func skipNested(line []byte, i int) int {
	for depth := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			if i = endOfString(line, i+1); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// skipStrictly is skipValue for what the parser of whole lines reads, at a depth of the line, and no more.
func skipStrictly(line []byte, i, depth int) int {
	if i == len(line) || depth > fastjson.MaxDepth {
		return -1
	}
	switch line[i] {
	case '"':
		return skipValue(line, i)
	case '{':
		return skipElements(line, i, depth, '}')
	case '[':
		return skipElements(line, i, depth, ']')
	}
	word := ""
	switch line[i] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	}
	switch {
	case word != "" && bytes.HasPrefix(line[i:], []byte(word)):
		return i + len(word)
	case word == "" || word == "null": // or NaN
		return skipNumber(line, i)
	}
	return -1
}

// skipElements returns where an object or a list ends that begins at i, or -1, given the byte that ends it.
func skipElements(line []byte, i, depth int, end byte) int {
	if i = skipSpace(line, i+1); i < len(line) && line[i] == end {
		return i + 1
	}
	for ; ; i = skipSpace(line, i+1) {
		if end == '}' {
			if i == len(line) || line[i] != '"' {
				return -1
			}
			if i = endOfString(line, i+1); i < 0 {
				return -1
			}
			if i = skipSpace(line, i+1); i == len(line) || line[i] != ':' {
				return -1
			}
			i = skipSpace(line, i+1)
		}
		if i = skipStrictly(line, i, depth+1); i < 0 {
			return -1
		}
		if i = skipSpace(line, i); i == len(line) {
			return -1
		}
		switch line[i] {
		case ',':
		case end:
			return i + 1
		default:
			return -1
		}
	}
}

// skipNumber returns where a number ends that begins at i, or -1. The parser takes all of its bytes for one, in any order, and knows those that are
// none or have no end.
func skipNumber(line []byte, i int) int {
	from := i
	for i < len(line) && (line[i] >= '0' && line[i] <= '9' || line[i] == '.' || line[i] == '-' || line[i] == '+' || line[i] == 'e' || line[i] == 'E') {
		i++
	}
	if i == len(line) || i > from+1 || i == from+1 && line[from] != '-' && line[from] != '+' {
		return i
	}
	if word := line[i:min(i+len("nan"), len(line))]; bytes.EqualFold(word, []byte("nan")) || bytes.EqualFold(word, []byte("inf")) {
		return i + len(word)
	}
	return -1
}

// named returns the name that stands in quotes.
func named(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	v, err := fastjson.ParseBytes([]byte(`"` + string(text) + `"`))
	if err != nil {
		return text
	}
	return v.GetStringBytes()
}
