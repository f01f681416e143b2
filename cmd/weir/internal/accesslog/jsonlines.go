package accesslog

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// jsonLines reads JSON lines: Caddy's, Traefik's, and those of any server that is configured to log JSON.
type jsonLines struct {
	parser                                         fastjson.Parser
	zone                                           *time.Location
	key                                            Key
	instant, address, status, method, target, host names
	agent, own                                     names
	whole                                          bool
	values                                         []names
	headerNames                                    map[string]string // canonical, by those of the log

	scanner *scanner        // finds the values of names; nil if a name is the place in a list
	parsed  bool            // whether the last line was parsed as a whole, and not scanned
	line    *fastjson.Value // that line
	text    []byte          // its numbers and words, as text
	headers []headerFields  // with whole: where the fields of the header are

	large bool // whether that line was a long one
}

var (
	errNoObject   = errors.New("no JSON object")
	errManyValues = errors.New("a line of more than 64 KiB with more than 4,096 commas")
	errNoInstant  = errors.New("no timestamp under any of the usual names: name it with -time")
)

// mostCommas is how many commas a long line may have. Each value takes the parser some hundred bytes.
const mostCommas = 4096

// names are the paths under which a value is looked for, the likeliest first.
type names struct {
	paths   [][]string
	numbers []int // of the values in the scanner
}

// headerFields are where a line has fields of a request's header.
type headerFields struct {
	path   []string // of the object
	prefix string   // of their names
	branch *branch  // in the scanner, if there is one
}

func pathsOf(paths ...string) (n names) {
	for _, p := range paths {
		n.paths = append(n.paths, strings.Split(strings.TrimPrefix(p, "."), "."))
	}
	return n
}

// find returns the value of the first path that has one, or nil. Each line is read by itself: the one before may have used another path.
func (n *names) find(v *fastjson.Value) *fastjson.Value {
	for _, path := range n.paths {
		if found := v.Get(path...); found != nil {
			return found
		}
	}
	return nil
}

func newJSONLines(o Options) *jsonLines {
	j := &jsonLines{
		zone:    o.Zone,
		key:     o.Key,
		instant: pathsOf("ts", "StartUTC", "time", "timestamp", "@timestamp", "msec", "time_iso8601", "time_local"),
		address: pathsOf("remote_addr", "request.client_ip", "ClientHost", "request.remote_ip", "client_ip", "remote_ip", "clientIp", "remoteIp", "ip"),
		status:  pathsOf("status", "DownstreamStatus", "status_code", "statusCode", "code"),
		method:  pathsOf("request_method", "request.method", "RequestMethod", "method"),
		target:  pathsOf("request_uri", "request.uri", "RequestPath", "uri", "path", "url", "request"),
		host:    pathsOf("http_host", "request.host", "RequestHost", "host"),
		agent:   pathsOf("http_user_agent", "request.headers.User-Agent", "request_User-Agent", "user_agent", "userAgent", "agent"),
	}
	if o.Time != "" {
		j.instant = pathsOf(o.Time)
	}
	if o.Key.kind != addressKey {
		j.own = j.namesOf(o.Key)
	}
	if j.whole = o.Whole; j.whole {
		j.headers = []headerFields{{path: []string{"request", "headers"}}, {path: []string{"headers"}}, {prefix: "request_"}, {prefix: "http_"}}
		for _, value := range o.Values {
			j.values = append(j.values, j.namesOf(value))
		}
	}
	all := slices.Grow([]*names{&j.instant, &j.address, &j.status, &j.method, &j.target, &j.host, &j.agent, &j.own}, len(j.values))
	for i := range j.values {
		all = append(all, &j.values[i])
	}
	scanner := newScanner()
	for _, n := range all {
		for _, path := range n.paths {
			if slices.ContainsFunc(path, isNumber) {
				return j
			}
			n.numbers = append(n.numbers, scanner.add(path))
		}
	}
	if j.scanner = scanner; j.whole {
		scanner.strict = true
		for i := range j.headers {
			if of := &j.headers[i]; of.path != nil {
				of.branch = scanner.addList(of.path, "")
			} else {
				of.branch = scanner.addList(nil, "request_", "http_")
			}
		}
	}
	return j
}

// isNumber reports whether a name may be the place of a value in a list.
func isNumber(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// get returns the value of the first of some names that the line has, as text, and whether there is one.
func (j *jsonLines) get(n *names) (text []byte, found bool) {
	if j.parsed {
		v := n.find(j.line)
		return j.textOf(v), v != nil
	}
	for _, number := range n.numbers {
		if raw := j.scanner.values[number]; raw != nil {
			return j.textIn(raw), true
		}
	}
	return nil, false
}

// textIn returns a value as text, as textOf does.
func (j *jsonLines) textIn(raw []byte) []byte {
	if raw[0] == '[' {
		if begin := skipSpace(raw, 1); raw[begin] == '"' { // the first of a list
			raw = raw[begin : endOfString(raw, begin+1)+1]
		}
	}
	switch c := raw[0]; {
	case c == '"' && bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1]
	case c == '{', string(raw) == "null":
		return nil
	case c != '"' && c != '[':
		return raw
	}
	v, err := j.parser.ParseBytes(raw)
	if err != nil {
		return nil
	}
	text := j.textOf(v)
	from := len(j.text)
	j.text = append(j.text, text...) // the parser has one value at a time
	return j.text[from:len(j.text):len(j.text)]
}

// namesOf returns where a key stands.
func (j *jsonLines) namesOf(key Key) names {
	switch key.kind {
	case headerKey:
		name := key.name
		variable := strings.ReplaceAll(strings.ToLower(name), "-", "_")
		return names{paths: [][]string{{"request", "headers", name}, {"request_" + name}, {"http_" + variable}, {"headers", name}, {name}, {variable}}}
	case fieldKey:
		return pathsOf(key.name)
	case addressKey:
	}
	return j.address
}

// addAll adds all that a line says.
func (j *jsonLines) addAll(r *Record) {
	address, _ := j.get(&j.address)
	r.Address = present(address)
	for i := range j.headers {
		of := &j.headers[i]
		if !j.parsed {
			for _, field := range j.scanner.list(of.branch) {
				if name, is := j.fieldName(r, of.prefix, field.name); is {
					r.addField(name, j.textIn(field.value))
				}
			}
		} else if object := j.line.GetObject(of.path...); object != nil {
			object.Visit(func(key []byte, value *fastjson.Value) {
				if name, is := j.fieldName(r, of.prefix, key); is {
					r.addField(name, j.textOf(value))
				}
			})
		}
	}
	for i := range j.values {
		value, _ := j.get(&j.values[i])
		r.Values = append(r.Values, present(value))
	}
}

// fieldName returns the name of a field of the header, given the one in the log. It returns false if that is none, or if the record has the field
// or has no room for it.
func (j *jsonLines) fieldName(r *Record, prefix string, key []byte) (name string, is bool) {
	logged, found := bytes.CutPrefix(key, []byte(prefix))
	if len(r.Header) == mostFields || !found || prefix == "request_" && (len(logged) == 0 || logged[0] < 'A' || logged[0] > 'Z') {
		return "", false // nginx' request_uri; Traefik's fields begin with a capital
	}
	name = j.headerName(logged)
	return name, name != "Host" && r.fieldOf(name) == nil
}

// headerName returns the canonical name of a field of a header. It remembers some, since a server writes the same ones in each line.
func (j *jsonLines) headerName(logged []byte) string {
	name, known := j.headerNames[string(logged)]
	if known {
		return name
	}
	name = http.CanonicalHeaderKey(strings.ReplaceAll(string(logged), "_", "-"))
	if len(j.headerNames) < mostFields && len(logged) <= longestRemembered {
		if j.headerNames == nil {
			j.headerNames = make(map[string]string)
		}
		j.headerNames[string(logged)] = name
	}
	return name
}

// Parse implements Parser.
func (j *jsonLines) Parse(line []byte, r *Record) error {
	r.empty()
	if j.large {
		j.parser, j.line, j.text = fastjson.Parser{}, nil, nil // it keeps space for as many values as the line had
	}
	if j.large = len(line) > 64<<10; j.large && bytes.Count(line, []byte(",")) > mostCommas {
		return errManyValues
	}
	if j.text = j.text[:0]; !j.read(line) {
		return errNoObject
	}
	at, found := j.get(&j.instant)
	if !found {
		return errNoInstant
	}
	var err error
	if r.Instant, r.Whole, err = stamp(at, j.zone); err != nil {
		return err
	}
	status, found := j.get(&j.status)
	if !found {
		return errNoStatus
	}
	if r.Status, found = statusOf(status); !found {
		return errNoStatus
	}
	if j.key.kind == addressKey {
		address, _ := j.get(&j.address)
		return r.setKey(address, true)
	}
	value, _ := j.get(&j.own)
	if j.key.name == "X-Forwarded-For" {
		return r.setKey(nearest(value), true)
	}
	return r.setKey(value, false)
}

// read reads a line. It reports false if that is no object.
func (j *jsonLines) read(line []byte) bool {
	if j.parsed = j.scanner == nil; !j.parsed {
		if j.scanner.scan(line) {
			return true
		}
		if j.parsed = j.scanner.unsure; !j.parsed {
			return false
		}
	}
	v, err := j.parser.ParseBytes(line)
	if err != nil || v.Type() != fastjson.TypeObject {
		return false
	}
	j.line = v
	return true
}

// Address implements Parser. In a line that is no object it is the value behind one of the usual names that stands there in quotes.
func (j *jsonLines) Address(line []byte) []byte {
	if j.large {
		line = line[:min(len(line), 64<<10)]
	}
	if v, err := j.parser.ParseBytes(line); err == nil {
		j.text = j.text[:0]
		return addressOf(j.textOf(j.address.find(v)))
	}
	for _, path := range j.address.paths {
		_, rest, found := bytes.Cut(line, []byte(`"`+path[len(path)-1]+`"`))
		if rest = bytes.TrimLeft(rest, " "); !found || len(rest) == 0 || rest[0] != ':' {
			continue
		}
		if value, _, ok := quoted(rest[1:]); ok {
			if address := addressOf(value); address != nil {
				return address
			}
		}
	}
	return nil
}

// Details implements Parser.
func (j *jsonLines) Details(r *Record) {
	r.Method, _ = j.get(&j.method)
	r.Host, _ = j.get(&j.host)
	if target, _ := j.get(&j.target); len(target) > 0 {
		if target[0] == '/' || len(r.Method) > 0 {
			splitTarget(target, r)
		} else {
			splitRequest(target, r) // nginx' $request
		}
	}
	agent, _ := j.get(&j.agent)
	r.Agent = present(agent)
	if j.whole {
		j.addAll(r)
	}
}

// textOf returns a value as text: a string without its quotes, the first element of a list, and nothing for null.
func (j *jsonLines) textOf(v *fastjson.Value) []byte {
	if v == nil {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeString:
		return v.GetStringBytes()
	case fastjson.TypeArray:
		return j.textOf(v.Get("0"))
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		from := len(j.text)
		j.text = v.MarshalTo(j.text) // if the space moves, earlier texts stay where they are
		return j.text[from:len(j.text):len(j.text)]
	case fastjson.TypeNull, fastjson.TypeObject:
	}
	return nil
}
