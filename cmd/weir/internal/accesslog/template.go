package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A template is the format that a server was told: nginx' log_format or Apache's LogFormat, as it stands in the server's configuration.
//
// A line is read from both ends towards the one field that a client writes without quotes, if there is one. The rest is that field's,
// with spaces and quotes in it or not. So the format may have one such field.
type template struct {
	fields []templateField
	tail   string // the text behind the last field
	open   int    // the number of the field that a client writes without quotes, or -1
}

type templateField struct {
	before string // the text between the field before and this one
	name   string // as the server calls it
	role   role
	header string // of a field of the header
	shape  shape
}

// A role is the meaning of a field.
type role uint8

const (
	ignoredRole role = iota
	addressRole
	timeRole
	statusRole
	requestRole
	methodRole
	targetRole
	hostRole
	headerRole
)

// A shape says how a field is told from the text around it.
type shape uint8

const (
	wordShape    shape = iota // has no space
	addressShape              // has no space, and may have colons
	listShape                 // words, with ", " or " : " between them, as nginx writes the values of several upstreams
	localShape                // 10/Oct/2026:13:55:36 +0200
	bracketShape              // the same in brackets
	quotedShape               // stands in quotes, and has a backslash before each quote of its own
	openShape                 // anything
)

// isTemplate tells a template from the name of a format.
func (f Format) isTemplate() bool { return strings.ContainsAny(string(f), "$%") }

var (
	nginxField  = regexp.MustCompile(`\$(?:([a-zA-Z_][a-zA-Z0-9_]*)|\{([a-zA-Z_][a-zA-Z0-9_]*)\})`)
	apacheField = regexp.MustCompile(`%[!0-9,]*([<>]?)(?:\{([^}]*)\})?(\^[a-z]{2}|[a-zA-Z%])`)
)

// ErrFormat is the error of a format that is no template of which lines can be read.
var ErrFormat = errors.New("the format cannot be read")

func parseTemplate(text string) (*template, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, fmt.Errorf("%w: it is one of JSON lines, whose name is json", ErrFormat)
	}
	t := &template{open: -1}
	pattern, fieldOf := nginxField, nginxFieldOf
	if !nginxField.MatchString(text) {
		pattern, fieldOf = apacheField, apacheFieldOf
		text = strings.ReplaceAll(text, `\"`, `"`) // as it stands in the configuration
	}
	end := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		before := t.tail + text[end:at[0]]
		if end = at[1]; text[at[0]:at[1]] == "%%" {
			t.tail = before + "%"
			continue
		}
		var parts []string
		for i := 2; i < len(at); i += 2 {
			part := ""
			if at[i] >= 0 {
				part = text[at[i]:at[i+1]]
			}
			parts = append(parts, part)
		}
		field, err := fieldOf(parts)
		if err != nil {
			return nil, err
		}
		field.before, field.name = before, text[at[0]:at[1]]
		if before == "" && len(t.fields) > 0 {
			return nil, fmt.Errorf("%w: nothing stands between %s and %s", ErrFormat, t.fields[len(t.fields)-1].name, field.name)
		}
		t.fields, t.tail = append(t.fields, field), ""
	}
	t.tail += text[end:]
	return t, t.settle()
}

// settle finds the fields in quotes, and the needed ones.
func (t *template) settle() error {
	has := make(map[role]bool)
	for i := range t.fields {
		f := &t.fields[i]
		after := t.tail
		if i+1 < len(t.fields) {
			after = t.fields[i+1].before
		}
		if strings.HasSuffix(f.before, `"`) && strings.HasPrefix(after, `"`) {
			f.shape = quotedShape
		}
		if f.shape == openShape {
			if t.open >= 0 {
				return fmt.Errorf("%w: a client can write anything in %s and in %s: have the server put one of them in quotes",
					ErrFormat, t.fields[t.open].name, f.name)
			}
			t.open = i
		}
		if has[f.role] && f.role != headerRole {
			f.role = ignoredRole // the first one counts
		}
		has[f.role] = true
	}
	if !has[timeRole] || !has[statusRole] {
		return fmt.Errorf("%w: it needs a timestamp and a status: $time_local, $time_iso8601 or $msec, and $status; or %%t and %%>s", ErrFormat)
	}
	return nil
}

var nginxRoles = map[string]templateField{
	"remote_addr": {role: addressRole, shape: addressShape}, "status": {role: statusRole}, "request": {role: requestRole, shape: openShape},
	"time_local": {role: timeRole, shape: localShape}, "time_iso8601": {role: timeRole}, "msec": {role: timeRole},
	"request_method": {role: methodRole}, "request_uri": {role: targetRole}, "uri": {role: targetRole, shape: openShape},
	"host": {role: hostRole}, "http_host": {role: hostRole}, "server_name": {role: hostRole}, "realip_remote_addr": {shape: addressShape},
}

// nginxWords are the variables of nginx in which no client can write a space.
var nginxWords = strings.Fields(`remote_port body_bytes_sent bytes_sent request_length request_time connection connection_requests connection_time
	pipe gzip_ratio scheme server_protocol server_port server_addr hostname pid request_id req_id request_completion ssl_protocol ssl_cipher
	ssl_session_reused args query_string is_args limit_req_status limit_conn_status upstream_cache_status proxy_upstream_name
	proxy_alternative_upstream_name proxy_host proxy_port content_length sent_http_content_length geoip_country_code geoip2_country_code binary_remote_addr`)

func nginxFieldOf(parts []string) (templateField, error) {
	name := parts[0] + parts[1]
	if f, ok := nginxRoles[name]; ok {
		return f, nil
	}
	if header, ok := strings.CutPrefix(name, "http_"); ok {
		return templateField{role: headerRole, header: http.CanonicalHeaderKey(strings.ReplaceAll(header, "_", "-")), shape: openShape}, nil
	}
	if strings.HasPrefix(name, "upstream_") && name != "upstream_cache_status" {
		return templateField{shape: listShape}, nil
	}
	if slices.Contains(nginxWords, name) {
		return templateField{}, nil
	}
	return templateField{shape: openShape}, nil
}

func apacheFieldOf(parts []string) (templateField, error) {
	name, letter := parts[1], parts[2]
	switch letter {
	case "h", "a":
		return templateField{role: addressRole, shape: addressShape}, nil
	case "t":
		switch name {
		case "":
			return templateField{role: timeRole, shape: bracketShape}, nil
		case "sec", "msec", "usec":
			return templateField{role: timeRole}, nil
		}
		return templateField{}, fmt.Errorf("%w: of a time, weir reads %%t, %%{sec}t, %%{msec}t and %%{usec}t, and not %%{%s}t", ErrFormat, name)
	case "s":
		return templateField{role: statusRole}, nil
	case "r":
		return templateField{role: requestRole, shape: openShape}, nil
	case "m":
		return templateField{role: methodRole}, nil
	case "U":
		return templateField{role: targetRole, shape: openShape}, nil
	case "v", "V":
		return templateField{role: hostRole}, nil
	case "i":
		if strings.EqualFold(name, "Host") {
			return templateField{role: hostRole}, nil
		}
		return templateField{role: headerRole, header: http.CanonicalHeaderKey(name), shape: openShape}, nil
	case "A":
		return templateField{shape: addressShape}, nil
	case "l", "b", "B", "O", "I", "S", "D", "T", "k", "P", "p", "L", "X", "q", "H", "R":
		return templateField{}, nil
	}
	return templateField{shape: openShape}, nil
}

// templateLines reads lines of a template.
type templateLines struct {
	*template

	zone    *time.Location
	details details
	key     int      // the number of the field that is the key
	values  [][]byte // of the line that was parsed last, by field
}

// fieldOf returns the number of the field that tells a key, or an error.
func (t *template) fieldOf(key Key) (int, error) {
	for i, f := range t.fields {
		if key.kind == addressKey && f.role == addressRole || key.kind == headerKey && f.role == headerRole && f.header == key.name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %s is not in the format %s", ErrKey, key, t)
}

// String returns the template as it was written.
func (t *template) String() string {
	var b strings.Builder
	for _, f := range t.fields {
		b.WriteString(f.before + f.name)
	}
	return b.String() + t.tail
}

func newTemplateLines(f Format, o Options) (*templateLines, error) {
	t, err := parseTemplate(string(f))
	if err != nil {
		return nil, err
	}
	lines := &templateLines{template: t, zone: o.Zone, details: details{o.Whole, o.Values}, values: make([][]byte, len(t.fields))}
	if lines.key, err = t.fieldOf(o.Key); err != nil {
		return nil, err
	}
	for _, value := range o.Values {
		if _, err := t.fieldOf(value); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

var errTemplate = errors.New("the line is not in the format")

// Parse implements Parser.
func (t *templateLines) Parse(line []byte, r *Record) error {
	r.empty()
	if !t.match(line) {
		return errTemplate
	}
	var ok bool
	for i := range t.fields {
		value := t.values[i]
		switch t.fields[i].role {
		case timeRole:
			if t.fields[i].shape == bracketShape {
				value = value[1 : len(value)-1]
			}
			var err error
			if r.Instant, r.Whole, err = stamp(value, t.zone); err != nil {
				return err
			}
		case statusRole:
			if r.Status, ok = statusOf(value); !ok {
				return errNoStatus
			}
		case hostRole:
			r.Host = present(value)
		case ignoredRole, addressRole, requestRole, methodRole, targetRole, headerRole:
		}
	}
	value := t.values[t.key]
	if t.fields[t.key].header == "X-Forwarded-For" {
		return r.setKey(nearest(value), true)
	}
	return r.setKey(value, t.fields[t.key].role == addressRole)
}

// Details implements Parser.
func (t *templateLines) Details(r *Record) {
	host := r.Host
	var address []byte
	for i := range t.fields {
		switch f := &t.fields[i]; f.role {
		case requestRole:
			splitRequest(t.values[i], r)
		case methodRole:
			r.Method = present(t.values[i])
		case targetRole:
			splitTarget(t.values[i], r)
		case addressRole:
			address = t.values[i]
		case headerRole:
			if f.header == "User-Agent" {
				r.Agent = present(t.values[i])
			}
			if t.details.whole && r.fieldOf(f.header) == nil {
				r.addField(f.header, t.values[i])
			}
		case ignoredRole, timeRole, statusRole, hostRole:
		}
	}
	if len(host) > 0 {
		r.Host = host
	}
	if !t.details.whole {
		return
	}
	r.Address = present(address)
	for _, value := range t.details.values {
		i, _ := t.fieldOf(value) // newTemplateLines has found it
		r.Values = append(r.Values, present(t.values[i]))
	}
}

// Address implements Parser.
func (t *templateLines) Address(line []byte) []byte {
	for i := range t.fields {
		rest, ok := bytes.CutPrefix(line, []byte(t.fields[i].before))
		if !ok || t.fields[i].shape == openShape {
			return nil
		}
		value, rest, ok := t.forward(i, rest)
		if !ok {
			return nil
		}
		if t.fields[i].role == addressRole {
			return addressOf(value)
		}
		line = rest
	}
	return nil
}

// match finds the value of each field.
func (t *templateLines) match(line []byte) (ok bool) {
	last := len(t.fields) // the fields before it are read from the left
	if t.open >= 0 {
		last = t.open
	}
	for i := range last {
		if line, ok = bytes.CutPrefix(line, []byte(t.fields[i].before)); !ok {
			return false
		}
		if t.values[i], line, ok = t.forward(i, line); !ok {
			return false
		}
	}
	if t.open < 0 {
		return string(line) == t.tail
	}
	if line, ok = bytes.CutSuffix(line, []byte(t.tail)); !ok {
		return false
	}
	for i := len(t.fields) - 1; i > t.open; i-- {
		if line, t.values[i], ok = t.backward(i, line); !ok {
			return false
		}
		if line, ok = bytes.CutSuffix(line, []byte(t.fields[i].before)); !ok {
			return false
		}
	}
	t.values[t.open], ok = bytes.CutPrefix(line, []byte(t.fields[t.open].before))
	return ok
}

// after returns the literal that follows a field, up to a space.
func (t *template) after(i int) string {
	text := t.tail
	if i+1 < len(t.fields) {
		text = t.fields[i+1].before
	}
	text, _, _ = strings.Cut(text, " ")
	return text
}

const (
	localLength   = len("10/Oct/2026:13:55:36 +0200")
	bracketLength = localLength + 2
)

// forward returns the value of a field that the text begins with, and the text behind it.
func (t *template) forward(i int, text []byte) (value, rest []byte, ok bool) {
	end := 0
	switch t.fields[i].shape {
	case localShape, bracketShape:
		if end = localLength; t.fields[i].shape == bracketShape {
			end = bracketLength
		}
	case quotedShape:
		if end = endOfQuoted(text); end < 0 {
			return nil, nil, false
		}
	case listShape:
		for {
			end += spaceIn(text[end:])
			switch {
			case end > 0 && text[end-1] == ',' && end < len(text):
				end++
				continue
			case bytes.HasPrefix(text[end:], []byte(" : ")):
				end += len(" : ")
				continue
			}
			break
		}
		end, ok = cutAt(text[:end], t.after(i), bytes.LastIndex)
		if !ok {
			return nil, nil, false
		}
	case wordShape, addressShape:
		find := bytes.Index
		if t.fields[i].shape == addressShape {
			find = bytes.LastIndex
		}
		if end, ok = cutAt(text[:spaceIn(text)], t.after(i), find); !ok {
			return nil, nil, false
		}
	case openShape:
		return nil, nil, false
	}
	if end > len(text) {
		return nil, nil, false
	}
	return text[:end], text[end:], true
}

// spaceIn returns the place of the first space, or the end.
func spaceIn(text []byte) int {
	if i := bytes.IndexByte(text, ' '); i >= 0 {
		return i
	}
	return len(text)
}

// cutAt returns where a word ends that is followed by a mark without a space between them.
func cutAt(run []byte, mark string, find func(text, mark []byte) int) (int, bool) {
	if mark == "" {
		return len(run), true
	}
	end := find(run, []byte(mark))
	return end, end >= 0
}

// backward returns the value of a field that the text ends with, and the text before it.
func (t *template) backward(i int, text []byte) (before, value []byte, ok bool) {
	mark := t.fields[i].before
	mark = mark[strings.LastIndexByte(mark, ' ')+1:]
	begin := 0
	switch t.fields[i].shape {
	case localShape:
		begin = len(text) - localLength
	case bracketShape:
		begin = len(text) - bracketLength
	case quotedShape:
		begin = beginOfQuoted(text)
	case listShape, wordShape, addressShape:
		begin = bytes.LastIndexByte(text, ' ') + 1
		for t.fields[i].shape == listShape {
			mark := ", "
			if bytes.HasSuffix(text[:begin], []byte(" : ")) {
				mark = " : "
			}
			before, more := bytes.CutSuffix(text[:begin], []byte(mark))
			if !more {
				break
			}
			begin = bytes.LastIndexByte(before, ' ') + 1
		}
		if mark != "" {
			at := bytes.Index(text[begin:], []byte(mark))
			if at < 0 {
				return nil, nil, false
			}
			begin += at + len(mark)
		}
	case openShape:
		return nil, nil, false
	}
	if begin < 0 {
		return nil, nil, false
	}
	return text[:begin], text[begin:], true
}

// endOfQuoted returns where the quote stands that ends the text of a field, or -1.
func endOfQuoted(text []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], '"')
		if i < 0 {
			return -1
		}
		if end := from + i; !escaped(text[:end]) {
			return end
		}
		from += i + 1
	}
}

// beginOfQuoted returns where the text begins that a quote behind it ends, or -1.
func beginOfQuoted(text []byte) int {
	for end := len(text); ; {
		i := bytes.LastIndexByte(text[:end], '"')
		if i < 0 {
			return -1
		}
		if !escaped(text[:i]) {
			return i + 1
		}
		end = i
	}
}

// escaped reports whether the byte behind a text is escaped by a backslash.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}
