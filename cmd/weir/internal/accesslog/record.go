package accesslog

import (
	"errors"
	"fmt"
	"time"
)

// Record is a request as a line tells of it. Its slices are parts of the line, or are valid until the next call of Parse. Parse sets
// Instant, Whole, Key and Status, and Details the rest.
type Record struct {
	// Instant is when the server logged the request, or, with Apache, received it: microseconds since 1970 in UTC.
	Instant int64
	// Whole is set when the line gives no fraction of a second.
	Whole bool
	// Key names the client, as [Key] says and [Shorten] returns it.
	Key []byte
	// Method, Host and Path are those of the request, without the query. They are empty where the line does not tell.
	Method, Host, Path []byte
	// Agent is the User-Agent, if the line has one.
	Agent []byte
	// Status is the status of the response, or 0 where the line has none.
	Status int

	// Address is the client's address as it is logged, perhaps with a port, Header the fields of the request that the line has, and Values are
	// those of [Options].Values. All three are set with Options.Whole alone.
	Address []byte
	Header  []Field
	Values  [][]byte
}

// empty makes the record a new one, and keeps the space of its slices.
func (r *Record) empty() { *r = Record{Header: r.Header[:0], Values: r.Values[:0]} }

// Field is a field of a request's header.
type Field struct {
	Name  string
	Value []byte
}

// mostFields is how many fields of a header are looked at.
const mostFields = 100

// addField adds a field, if it has a value and there is room.
func (r *Record) addField(name string, value []byte) {
	if value = present(value); len(value) > 0 && len(r.Header) < mostFields {
		r.Header = append(r.Header, Field{name, value})
	}
}

// fieldOf returns the value of a field, or nil.
func (r *Record) fieldOf(name string) []byte {
	for i := range r.Header {
		if r.Header[i].Name == name {
			return r.Header[i].Value
		}
	}
	return nil
}

// ErrNoKey is the error of a line that is well formed and has no key, such as one without the header that is the key.
var ErrNoKey = errors.New("the line has no key")

// ErrKey is the error of a format that does not log the key.
var ErrKey = errors.New("the log does not have this key")

// A Parser reads lines of one format. It must not be used concurrently.
type Parser interface {
	// Parse reads the instant, the key and the status from a line without its line end, and empties the rest of r. The error is ErrNoKey, or
	// names the part that the line lacks.
	Parse(line []byte, r *Record) error
	// Details adds the rest of the line to r. Parse must have read that line last, into the same r and without an error.
	Details(r *Record)
	// Address returns the client's address of a line that Parse has refused, or nil if it cannot be read: IPv6 as its /64. It is valid until
	// the next call of Parse.
	Address(line []byte) []byte
}

// Format is the way in which a log is written: one of the constants, or the format that the server was told, such as nginx' log_format
// '$remote_addr [$time_local] "$request" $status' or Apache's LogFormat '%h %t "%r" %>s'.
type Format string

// The formats. Combined stands for Apache's common and combined and for nginx' own, with or without a virtual host in front.
const (
	Combined Format = "combined"
	ALB      Format = "alb"
	JSON     Format = "json"
)

// ParseFormat reads the name of a format: one of the constants, or the name of a server that writes it. It also takes the format itself, as
// it stands in the configuration of nginx or Apache.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); f.isTemplate() {
		_, err := parseTemplate(name)
		return f, err
	}
	switch name {
	case "combined", "common", "nginx", "apache", "clf":
		return Combined, nil
	case "alb":
		return ALB, nil
	case "json", "caddy", "traefik":
		return JSON, nil
	}
	return "", fmt.Errorf("unknown format %q: want nginx, apache, alb, caddy, traefik or json, or a log_format of nginx or a LogFormat of Apache",
		name)
}

// Options say which parts of a line are read.
type Options struct {
	// Key names the client of a request. The zero value is the address.
	Key Key
	// Whole has a Record tell all that the line says about the request.
	Whole bool
	// Values are more to read from each line, with Whole: an address, a field of the header, or a path in JSON lines. One that a line
	// lacks is empty.
	Values []Key
	// Time is the path of the instant in JSON lines, such as ".start". By default the usual names are tried.
	Time string
	// Zone is that of timestamps which do not name one. The default is UTC. Of an hour that a zone has twice, the first is meant.
	Zone *time.Location
}

// New returns a parser for the format. It is an error to ask a format for a key that it does not log.
func New(f Format, o Options) (Parser, error) {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	switch {
	case f.isTemplate():
		return newTemplateLines(f, o)
	case o.Key.kind == fieldKey && f != JSON:
		return nil, fmt.Errorf("%w: %s needs JSON lines, and the log is in the format %s", ErrKey, o.Key, f)
	case f == JSON:
		return newJSONLines(o), nil
	}
	take, err := o.Key.column()
	if err != nil {
		return nil, err
	}
	for _, value := range o.Values {
		if value.kind == fieldKey {
			return nil, fmt.Errorf("%w: %s needs JSON lines, and the log is in the format %s", ErrKey, value, f)
		}
		if _, err = value.column(); err != nil {
			return nil, err
		}
	}
	if f == ALB {
		return &albLines{take: take, details: details{o.Whole, o.Values}}, nil
	}
	return &combinedLines{take: take, details: details{o.Whole, o.Values}}, nil
}

// details say which further parts of a line are read.
type details struct {
	whole  bool
	values []Key
}

// add adds the address, the fields and the values of a line that is no JSON to a record.
func (d *details) add(r *Record, address, referer, forwarded []byte) {
	if !d.whole {
		return
	}
	r.Address = present(address)
	r.addField("Referer", referer)
	r.addField("User-Agent", r.Agent)
	r.addField("X-Forwarded-For", forwarded)
	for _, value := range d.values {
		if value.kind == addressKey {
			r.Values = append(r.Values, r.Address)
		} else {
			r.Values = append(r.Values, r.fieldOf(value.name))
		}
	}
}
