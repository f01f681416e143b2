package accesslog

import (
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
}

var (
	errNoObject  = errors.New("no JSON object")
	errNoInstant = errors.New("no timestamp under any of the usual names: name it with -time")
)

// names are the paths under which a value is looked for. The one that was found last is tried first.
type names struct {
	paths [][]string
	last  int
}

func pathsOf(paths ...string) names {
	n := names{}
	for _, p := range paths {
		n.paths = append(n.paths, strings.Split(strings.TrimPrefix(p, "."), "."))
	}
	return n
}

// find returns the first value that is there, or nil.
func (n *names) find(v *fastjson.Value) *fastjson.Value {
	if len(n.paths) == 0 {
		return nil
	}
	if found := v.Get(n.paths[n.last]...); found != nil {
		return found
	}
	for i, path := range n.paths {
		if found := v.Get(path...); found != nil {
			n.last = i
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
		return names{paths: [][]string{{"request", "headers", name}, {"request_" + name}, {"http_" + variable}, {"headers", name}, {name}, {variable}}}
	case fieldKey:
		return pathsOf(key.name)
	case addressKey:
	}
	return j.address
}

// details adds what else a line says.
func (j *jsonLines) details(v *fastjson.Value, r *Record) {
	r.Address = present(textOf(j.address.find(v)))
	for _, of := range [...]struct {
		headers *fastjson.Object
		prefix  string
	}{{v.GetObject("request", "headers"), ""}, {v.GetObject("headers"), ""}, {v.GetObject(), "request_"}, {v.GetObject(), "http_"}} {
		if of.headers == nil {
			continue
		}
		of.headers.Visit(func(key []byte, value *fastjson.Value) {
			name, found := strings.CutPrefix(string(key), of.prefix)
			if of.prefix == "request_" && (name == "" || name[0] < 'A' || name[0] > 'Z') {
				return // nginx' request_uri; Traefik's fields begin with a capital
			}
			name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
			if found && name != "Host" && r.fieldOf(name) == nil {
				r.addField(name, textOf(value))
			}
		})
	}
	for i := range j.values {
		r.Values = append(r.Values, present(textOf(j.values[i].find(v))))
	}
}

// Parse implements Parser.
func (j *jsonLines) Parse(line []byte, r *Record) error {
	*r = Record{}
	v, err := j.parser.ParseBytes(line)
	if err != nil {
		return errNoObject
	}
	if v.Type() != fastjson.TypeObject {
		return errNoObject
	}
	at := j.instant.find(v)
	if at == nil {
		return errNoInstant
	}
	if r.Instant, r.Whole, err = stamp(textOf(at), j.zone); err != nil {
		return err
	}
	status := j.status.find(v)
	if status == nil {
		return errNoStatus
	}
	var ok bool
	if r.Status, ok = statusOf(textOf(status)); !ok {
		return errNoStatus
	}
	r.Method = textOf(j.method.find(v))
	r.Host = textOf(j.host.find(v))
	if target := textOf(j.target.find(v)); len(target) > 0 {
		if target[0] == '/' || len(r.Method) > 0 {
			splitTarget(target, r)
		} else {
			splitRequest(target, r) // nginx' $request
		}
	}
	r.Agent = present(textOf(j.agent.find(v)))
	if j.whole {
		j.details(v, r)
	}
	if j.key.kind == addressKey {
		return r.setKey(textOf(j.address.find(v)), true)
	}
	value := textOf(j.own.find(v))
	if j.key.name == "X-Forwarded-For" {
		return r.setKey(nearest(value), true)
	}
	return r.setKey(value, false)
}

// textOf returns a value as text: a string without its quotes, the first element of a list, and nothing for null.
func textOf(v *fastjson.Value) []byte {
	if v == nil {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeString:
		return v.GetStringBytes()
	case fastjson.TypeArray:
		return textOf(v.Get("0"))
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		return v.MarshalTo(nil)
	case fastjson.TypeNull, fastjson.TypeObject:
	}
	return nil
}
