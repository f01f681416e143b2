package accesslog

import (
	"bytes"
	"errors"
	"net/netip"
)

// combinedLines reads Apache's common and combined formats, with a virtual host in front or not, nginx' combined, and what adds fields
// behind them, as nginx' example "main" and Traefik do.
type combinedLines struct {
	take    column
	details details
}

var (
	errNoTime    = errors.New("no [timestamp]")
	errNoRequest = errors.New(`no "request" after the timestamp`)
	errNoStatus  = errors.New("no status after the request")
)

// Parse implements Parser.
func (c *combinedLines) Parse(line []byte, r *Record) error {
	*r = Record{}
	open := bytes.IndexByte(line, '[') - 1
	if open < 0 || line[open] != ' ' { // a user, perhaps, has a bracket
		if open = bytes.Index(line, []byte(" [")); open < 0 {
			return errNoTime
		}
	}
	length := bytes.IndexByte(line[open:], ']')
	if length < 0 {
		return errNoTime
	}
	var err error
	if r.Instant, err = bracketed(line[open+2 : open+length]); err != nil {
		return err
	}
	r.Whole = true

	before, rest := line[:open], line[open+length+1:]
	address, before, _ := bytes.Cut(before, []byte(" "))
	if isVirtualHost(address) {
		r.Host = address
		address, _, _ = bytes.Cut(before, []byte(" "))
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return errNoRequest
	}
	splitRequest(request, r)
	status, rest := word(rest)
	if r.Status, ok = statusOf(status); !ok {
		return errNoStatus
	}
	_, rest = word(rest) // bytes sent

	referer, rest, _ := quoted(rest)
	agent, rest, _ := quoted(rest)
	r.Agent = present(agent)
	if c.details.whole {
		forwarded, _, _ := quoted(rest)
		c.details.add(r, address, referer, forwarded)
	}
	switch c.take {
	case refererColumn:
		return r.setKey(referer, false)
	case agentColumn:
		return r.setKey(agent, false)
	case forwardedColumn:
		forwarded, _, _ := quoted(rest)
		return r.setKey(nearest(forwarded), true)
	case addressColumn:
	}
	return r.setKey(address, true)
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

// quoted returns the field in quotes that follows, and what is behind it. A backslash escapes what stands after it.
func quoted(text []byte) (field, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	if len(text) == 0 || text[0] != '"' {
		return nil, text, false
	}
	for i := 1; ; i++ {
		end := bytes.IndexByte(text[i:], '"')
		if end < 0 {
			return nil, nil, false
		}
		i += end
		if escapes := len(text[1:i]) - len(bytes.TrimRight(text[1:i], `\`)); escapes%2 == 0 {
			return text[1:i], text[i+1:], true
		}
	}
}

// word returns the field that ends with the next space, and what is behind it.
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

// splitRequest reads "GET /path?query HTTP/1.1". What is no request of HTTP leaves all empty: a scanner may send anything.
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
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if _, rest, ok := bytes.Cut(target, []byte("://")); ok && len(target) > 0 && target[0] != '/' {
		slash := bytes.IndexByte(rest, '/')
		if slash < 0 {
			r.Host, r.Path = rest, []byte("/")
			return
		}
		r.Host, target = rest[:slash], rest[slash:]
	}
	r.Path = target
}
