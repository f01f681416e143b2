package keyfuncs

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/ratelimit/internal/given"
)

// Forwarded believes the "for" parameters of the Forwarded header (RFC 7239) as
// far as your own proxies wrote them. It is given their prefixes and walks the
// header in the way of [TrustedProxies], with the same bounds and panics.
//
// An entry that is malformed, has no "for" or two, or hides the client behind "unknown" or a name such as "_hidden", ends
// the search, and the peer pays. The header is read from the right, so an open quote of the client's cannot swallow the
// entries that the proxies appended to it.
//
// RFC 7239 wants an IPv6 address in brackets and quotes: for="[2001:db8::1]". One
// without them, such as for=2001:db8::1, is read as long as its last group cannot be a
// port. In 2001:db8::1:80 it can, and the peer pays. Have the proxy write brackets, so
// that no client is taken for the proxy.
func Forwarded(prefixes ...string) Trust {
	proxies := parsePrefixes("Forwarded", prefixes)
	requirePrefixes("Forwarded", proxies)
	return func(a *given.Address) {
		a.Believe("Forwarded", func(peer netip.Addr, r *http.Request) (netip.Addr, bool) {
			entries := entriesFromRight(r.Header["Forwarded"], lastUnquotedComma)
			return firstUntrusted(peer, proxies, entries, parseForwarded)
		})
	}
}

// lastUnquotedComma finds the last comma outside of quoted strings, going from right to left: so entries that proxies
// have appended are read alike behind every text.
func lastUnquotedComma(line string) int {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case '"':
			if !quoted || !escaped(line, i) {
				quoted = !quoted
			}
		case ',':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(line string, i int) bool {
	before := strings.TrimRight(line[:i], `\`)
	return (i-len(before))%2 == 1
}

// parseForwarded returns the address in the "for" parameter of one element, or
// the zero Addr if the element is malformed or has no address there.
func parseForwarded(element string) netip.Addr {
	var node string
	found := false
	for rest := element; rest != ""; {
		name, value, after, ok := cutPair(rest)
		if !ok {
			return netip.Addr{}
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}
			}
			node, found = value, true
		}
		rest = after
	}
	return parseNode(node)
}

// cutPair cuts the first name=value from the pairs of an element, which are
// separated by semicolons. A pair may be left out, and then has no name.
func cutPair(text string) (name, value, after string, ok bool) {
	text = strings.TrimLeft(text, " \t")
	if text == "" || text[0] == ';' {
		return "", "", strings.TrimPrefix(text, ";"), true
	}
	name, text, ok = strings.Cut(text, "=")
	if !ok || !isToken(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(text, `"`) {
		value, text, ok = cutQuoted(text[1:])
		if !ok {
			return "", "", "", false
		}
		text = strings.TrimLeft(text, " \t")
		if text != "" && text[0] != ';' {
			return "", "", "", false
		}
		return name, value, strings.TrimPrefix(text, ";"), true
	}
	// Colons are not allowed in an unquoted value, but some proxies append a port.
	value, after, _ = strings.Cut(text, ";")
	return name, trimSpace(value), after, !strings.Contains(value, `"`)
}

// cutQuoted reads a quoted string up to its closing quote.
func cutQuoted(text string) (value, after string, ok bool) {
	end := strings.IndexAny(text, `"\`)
	if end < 0 {
		return "", "", false
	}
	if text[end] == '"' {
		return text[:end], text[end+1:], true
	}
	var unescaped strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return unescaped.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
		}
		unescaped.WriteByte(text[i])
	}
	return "", "", false
}

// parseNode reads an IPv4 address or an IPv6 address in brackets, and drops the port,
// which may be a name that hides it: "_p1". Nodes that hide the client, "unknown" and
// "_name", are no addresses.
func parseNode(node string) netip.Addr {
	address, port := node, ""
	bracket := strings.IndexByte(node, ']')
	firstColon, lastColon := strings.IndexByte(node, ':'), strings.LastIndexByte(node, ':')
	switch {
	case bracket >= 0:
		address, port = node[:bracket+1], node[bracket+1:]
		if address[0] != '[' {
			return netip.Addr{}
		}
	case firstColon != lastColon:
		return parseWithoutBrackets(node, lastColon)
	case lastColon >= 0:
		address, port = node[:lastColon], node[lastColon:]
	}
	if port != "" && !isNodePort(port) {
		return netip.Addr{}
	}
	return parseAddress(address)
}

// parseWithoutBrackets reads an IPv6 address without brackets, which RFC 7239 forbids and
// some proxies send. "2001:db8::1:80" may be an address, or an address with the port 80, so it
// counts as none: if it were read as an address, and the proxy appends ports, the client would
// choose its key by the port that it calls from.
func parseWithoutBrackets(node string, lastColon int) netip.Addr {
	if _, err := netip.ParseAddr(node[:lastColon]); err == nil && isNodePort(node[lastColon:]) {
		return netip.Addr{}
	}
	return parseAddress(node)
}

// isNodePort reports whether text is ":" and up to five digits, or ":_" and a
// name.
func isNodePort(text string) bool {
	port, ok := strings.CutPrefix(text, ":")
	if !ok {
		return false
	}
	if name, hidden := strings.CutPrefix(port, "_"); hidden {
		return isToken(name)
	}
	return 1 <= len(port) && len(port) <= 5 && strings.Trim(port, "0123456789") == ""
}
