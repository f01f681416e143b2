package accesslog

import (
	"bytes"
	"errors"
	"net/netip"
)

// combinedLines reads Apache's common and combined formats, with a virtual host in front or not, nginx' combined, and formats with more
// fields behind these, as nginx' example "main" and Traefik's.
type combinedLines struct {
	take    column
	details details

	request, address, rest []byte // of the line that was parsed last: rest follows the bytes sent

	second  []byte // the timestamp that was read last, since many lines in a row have the same
	instant int64
}

var (
	errNoTime    = errors.New("no [timestamp]")
	errNoRequest = errors.New(`no "request" after the timestamp`)
	errNoStatus  = errors.New("no status after the request")
)

// Parse implements Parser.
//
// The user's name is the client's text, and is not in quotes: its brackets are no syntax. Servers escape quotes in it, so the
// timestamp is the one before the first quote that follows a bracket.
func (c *combinedLines) Parse(line []byte, r *Record) error {
	r.empty()
	err := errNoTime
	for from := 0; ; {
		quote := bytes.IndexByte(line[from:], '"')
		if quote < 0 {
			return err
		}
		from += quote + 1
		before := bytes.TrimRight(line[:from-1], " ")
		if n := len(before); n == 0 || before[n-1] != ']' || n == from-1 {
			continue // the begin of no request
		}
		open := bytes.LastIndexByte(before, '[')
		if open < 1 || before[open-1] != ' ' {
			continue
		}
		if err = c.parse(line[:open], before[open+1:len(before)-1], line[from-1:], r); err == nil || errors.Is(err, ErrNoKey) {
			return err
		}
	}
}

// parse reads a line in three parts: the text before the timestamp, the timestamp, and the rest, which begins with the request.
func (c *combinedLines) parse(before, timestamp, rest []byte, r *Record) error {
	if len(c.second) == 0 || !bytes.Equal(timestamp, c.second) {
		instant, err := bracketed(timestamp)
		if err != nil {
			return err
		}
		c.second, c.instant = append(c.second[:0], timestamp...), instant
	}
	r.Instant, r.Whole = c.instant, true

	address, before, _ := bytes.Cut(before, []byte(" "))
	if isVirtualHost(address) {
		r.Host = address
		address, _, _ = bytes.Cut(before, []byte(" "))
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return errNoRequest
	}
	status, rest := word(rest)
	if r.Status, ok = statusOf(status); !ok {
		return errNoStatus
	}
	_, rest = word(rest) // bytes sent
	c.request, c.address, c.rest = request, address, rest
	if c.take == addressColumn {
		return r.setKey(address, true)
	}
	referer, agent, forwarded := c.fields()
	switch c.take {
	case refererColumn:
		return r.setKey(referer, false)
	case agentColumn:
		return r.setKey(agent, false)
	case forwardedColumn, addressColumn:
	}
	return r.setKey(nearest(forwarded), true)
}

// Address implements Parser.
func (c *combinedLines) Address(line []byte) []byte {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	if isVirtualHost(first) {
		first, _, _ = bytes.Cut(rest, []byte(" "))
	}
	return addressOf(first)
}

// Details implements Parser.
func (c *combinedLines) Details(r *Record) {
	splitRequest(c.request, r)
	referer, agent, forwarded := c.fields()
	r.Agent = present(agent)
	c.details.add(r, c.address, referer, forwarded)
}

// fields returns the fields in quotes that follow the bytes sent.
func (c *combinedLines) fields() (referer, agent, forwarded []byte) {
	referer, rest, _ := quoted(c.rest)
	agent, rest, _ = quoted(rest)
	forwarded, _, _ = quoted(rest)
	return referer, agent, forwarded
}

// isVirtualHost tells "shop.example:443" from an address.
func isVirtualHost(text []byte) bool {
	colon := bytes.IndexByte(text, ':')
	if colon < 0 || bytes.IndexByte(text[colon+1:], ':') >= 0 {
		return false
	}
	_, err := netip.ParseAddr(string(text))
	return err != nil
}

// quoted returns the field in quotes that follows, and the text behind it. A backslash escapes the byte after it.
func quoted(text []byte) (field, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	if len(text) == 0 || text[0] != '"' {
		return nil, text, false
	}
	end := endOfQuoted(text[1:])
	if end < 0 {
		return nil, nil, false
	}
	return text[1 : end+1], text[end+2:], true
}

// word returns the field that ends with the next space, and the text behind it.
func word(text []byte) (field, rest []byte) {
	text = bytes.TrimLeft(text, " ")
	field, rest, _ = bytes.Cut(text, []byte(" "))
	return field, rest
}

// statusOf reads a status. Servers log 0 or "-" for a request that got no answer.
func statusOf(text []byte) (int, bool) {
	if len(text) == 1 && text[0] == '-' {
		return 0, true
	}
	n, ok := number(text)
	return int(n), ok && len(text) <= 3
}

// splitRequest reads "GET /path?query HTTP/1.1". Any other text leaves all fields empty: a scanner may send anything.
func splitRequest(request []byte, r *Record) {
	method, rest, ok := bytes.Cut(request, []byte(" "))
	if !ok || len(method) == 0 {
		return
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' && (c < 'a' || c > 'z') {
			return
		}
	}
	r.Method = method
	target, _, _ := bytes.Cut(rest, []byte(" "))
	splitTarget(target, r)
}

// splitTarget reads the target of a request: a path, or a whole URL.
func splitTarget(target []byte, r *Record) {
	target, _, _ = bytes.Cut(target, []byte("?"))
	target, _, _ = bytes.Cut(target, []byte("#"))
	if len(target) == 0 || target[0] == '/' {
		r.Path = target
		return
	}
	if _, rest, ok := bytes.Cut(target, []byte("://")); ok {
		slash := bytes.IndexByte(rest, '/')
		if slash < 0 {
			r.Host, r.Path = rest, []byte("/")
			return
		}
		r.Host, target = rest[:slash], rest[slash:]
	}
	r.Path = target
}
