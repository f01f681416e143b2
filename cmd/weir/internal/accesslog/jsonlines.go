package accesslog

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// jsonLines reads JSON lines: Caddy's, Traefik's, and those of a server whose log format is told to write JSON.
type jsonLines struct {
	parser                                         fastjson.Parser
	zone                                           *time.Location
	key                                            Key
	instant, address, status, method, target, host names
	agent, own                                     names
	whole                                          bool
	values                                         []names

	line *fastjson.Value // the one that was parsed last
	text []byte          // what it says in numbers and words

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
type names [][]string

func pathsOf(paths ...string) (n names) {
	for _, p := range paths {
		n = append(n, strings.Split(strings.TrimPrefix(p, "."), "."))
	}
	return n
}

// find returns the value of the first path that has one, or nil. What other lines have does not matter.
func (n names) find(v *fastjson.Value) *fastjson.Value {
	for _, path := range n {
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
		for _, value := range o.Values {
			j.values = append(j.values, j.namesOf(value))
		}
	}
	return j
}

// namesOf returns where a key stands.
func (j *jsonLines) namesOf(key Key) names {
	switch key.kind {
	case headerKey:
		name := key.name
		variable := strings.ReplaceAll(strings.ToLower(name), "-", "_")
		return names{{"request", "headers", name}, {"request_" + name}, {"http_" + variable}, {"headers", name}, {name}, {variable}}
	case fieldKey:
		return pathsOf(key.name)
	case addressKey:
	}
	return j.address
}

// addAll adds all that a line says.
func (j *jsonLines) addAll(v *fastjson.Value, r *Record) {
	r.Address = present(j.textOf(j.address.find(v)))
	for _, of := range [...]struct {
		headers *fastjson.Object
		prefix  string
	}{{v.GetObject("request", "headers"), ""}, {v.GetObject("headers"), ""}, {v.GetObject(), "request_"}, {v.GetObject(), "http_"}} {
		if of.headers == nil {
			continue
		}
		of.headers.Visit(func(key []byte, value *fastjson.Value) {
			if len(r.Header) == mostFields {
				return
			}
			name, found := strings.CutPrefix(string(key), of.prefix)
			if of.prefix == "request_" && (name == "" || name[0] < 'A' || name[0] > 'Z') {
				return // nginx' request_uri; Traefik's fields begin with a capital
			}
			name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
			if found && name != "Host" && r.fieldOf(name) == nil {
				r.addField(name, j.textOf(value))
			}
		})
	}
	for i := range j.values {
		r.Values = append(r.Values, present(j.textOf(j.values[i].find(v))))
	}
}

// Parse implements Parser.
func (j *jsonLines) Parse(line []byte, r *Record) error {
	*r = Record{}
	if j.large {
		j.parser, j.line, j.text = fastjson.Parser{}, nil, nil // it keeps space for as many values as the line had
	}
	if j.large = len(line) > 64<<10; j.large && bytes.Count(line, []byte(",")) > mostCommas {
		return errManyValues
	}
	v, err := j.parser.ParseBytes(line)
	if err != nil {
		return errNoObject
	}
	if v.Type() != fastjson.TypeObject {
		return errNoObject
	}
	j.line, j.text = v, j.text[:0]
	at := j.instant.find(v)
	if at == nil {
		return errNoInstant
	}
	if r.Instant, r.Whole, err = stamp(j.textOf(at), j.zone); err != nil {
		return err
	}
	status := j.status.find(v)
	if status == nil {
		return errNoStatus
	}
	var ok bool
	if r.Status, ok = statusOf(j.textOf(status)); !ok {
		return errNoStatus
	}
	if j.key.kind == addressKey {
		return r.setKey(j.textOf(j.address.find(v)), true)
	}
	value := j.textOf(j.own.find(v))
	if j.key.name == "X-Forwarded-For" {
		return r.setKey(nearest(value), true)
	}
	return r.setKey(value, false)
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
	for _, path := range j.address {
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
	r.Method = j.textOf(j.method.find(j.line))
	r.Host = j.textOf(j.host.find(j.line))
	if target := j.textOf(j.target.find(j.line)); len(target) > 0 {
		if target[0] == '/' || len(r.Method) > 0 {
			splitTarget(target, r)
		} else {
			splitRequest(target, r) // nginx' $request
		}
	}
	r.Agent = present(j.textOf(j.agent.find(j.line)))
	if j.whole {
		j.addAll(j.line, r)
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
		j.text = v.MarshalTo(j.text) // if the space moves, what was written before stays where it is
		return j.text[from:len(j.text):len(j.text)]
	case fastjson.TypeNull, fastjson.TypeObject:
	}
	return nil
}
