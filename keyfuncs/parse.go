package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Parse reads a function from the text by which a file names it:
//
//	ip                               IP(), which is RemoteIP
//	ip trusted 10.0.0.0/8            IP(TrustedProxies("10.0.0.0/8"))
//	ip hops 1                        IP(TrustedHops(1))
//	ip header X-Real-IP 10.0.0.0/8   IP(TrustedHeader("X-Real-IP", "10.0.0.0/8"))
//	ip forwarded 10.0.0.0/8          IP(Forwarded("10.0.0.0/8"))
//	ip ipv4 24 ipv6 56               IP(IPv4Prefix(24), IPv6Prefix(56)), also behind a trust model
//	header X-API-Key                 Header("X-API-Key")
//	bearer                           Bearer()
//	cookie session                   Cookie("session")
//	path id                          PathValue("id")
//	host, method, route, global      Host, Method, Route, Global
//	user                             named("user")
//	user or ip                       Or(user, RemoteIP)
//	ip and route                     Join(RemoteIP, Route)
//	(user or ip) and route           Join(Or(user, RemoteIP), Route)
//
// Several prefixes stand behind each other, with white space between them. If both "and" and "or" occur, parentheses have
// to group them. There are no options of hashes: give a name to a function that has one.
//
// Every other word is a name, and named returns the function for it. An unknown name is an error: named returns nil then,
// and may be nil itself. An error names the wrong part of the text. Nothing panics.
func Parse(text string, named func(name string) Func) (Func, error) {
	p := parser{rest: words(text), named: named}
	f, err := p.whole()
	if err != nil {
		return nil, fmt.Errorf("keyfuncs: key %q: %w", text, err)
	}
	return f, nil
}

// ParseAddress reads a function from the text that [Parse] reads [IP] from: "ip trusted 10.0.0.0/8" gives
// Address(TrustedProxies("10.0.0.0/8")).
func ParseAddress(text string) (func(*http.Request) netip.Addr, error) {
	p := parser{rest: words(text)}
	trust, err := p.address()
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("%q is one word too many", p.peek())
	}
	if err != nil {
		return nil, fmt.Errorf("keyfuncs: address %q: %w", text, err)
	}
	return Address(trust...), nil
}

// deepest is how many parentheses may stand inside one another.
const deepest = 16

// parser reads a function from words.
type parser struct {
	rest  []string
	named func(string) Func
	depth int
}

// words splits a text at white space and parentheses, which are words themselves.
func words(text string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text))
}

// peek returns the next word, or "" behind the last one.
func (p *parser) peek() string {
	if len(p.rest) == 0 {
		return ""
	}
	return p.rest[0]
}

func (p *parser) next() string {
	word := p.peek()
	if word != "" {
		p.rest = p.rest[1:]
	}
	return word
}

// whole reads all words.
func (p *parser) whole() (Func, error) {
	f, err := p.several()
	if err == nil && p.peek() != "" {
		err = unexpected(p.peek())
	}
	return f, err
}

func unexpected(word string) error {
	return fmt.Errorf(`%q is one word too many: write "and" or "or" between two keys`, word)
}

// several reads keys that are joined by one word.
func (p *parser) several() (Func, error) {
	first, err := p.one()
	if err != nil {
		return nil, err
	}
	funcs := []Func{first}
	by := p.peek()
	for by == "and" || by == "or" {
		p.next()
		f, err := p.one()
		if err != nil {
			return nil, err
		}
		funcs = append(funcs, f)
		if next := p.peek(); next != by {
			if next == "and" || next == "or" {
				return nil, errors.New(`it has both "and" and "or": group them by parentheses, as in (user or ip) and route`)
			}
			break
		}
	}
	switch {
	case len(funcs) == 1:
		return first, nil
	case by == "and":
		return Join(funcs...), nil
	}
	return Or(funcs...), nil
}

// one reads a key, or several in parentheses.
func (p *parser) one() (Func, error) {
	word := p.peek()
	switch word {
	case "":
		return nil, errors.New("a key is missing: write one, such as ip, or header X-API-Key")
	case "and", "or", ")":
		return nil, fmt.Errorf("a key is missing in front of %q", word)
	case "ip":
		trust, err := p.address()
		if err != nil {
			return nil, err
		}
		if len(trust) == 0 {
			return RemoteIP, nil
		}
		return IP(trust...), nil
	}
	p.next()
	if f, known := plain[word]; known {
		return f, nil
	}
	if read, known := withName[word]; known {
		return read(p.next())
	}
	if word == "(" {
		return p.parenthesis()
	}
	if p.named != nil {
		if f := p.named(word); f != nil {
			return Or(f), nil
		}
	}
	return nil, fmt.Errorf("%q is no key that is known here: want ip, header, bearer, cookie, path, host, method, route, global,"+
		" or a name that the program gives a function to", word)
}

// parenthesis reads the text behind an opening parenthesis.
func (p *parser) parenthesis() (Func, error) {
	if p.depth++; p.depth > deepest {
		return nil, fmt.Errorf("more than %d parentheses are open", deepest)
	}
	f, err := p.several()
	if err != nil {
		return nil, err
	}
	switch word := p.next(); word {
	case ")":
		p.depth--
		return f, nil
	case "":
		return nil, errors.New("a parenthesis is not closed")
	default:
		return nil, unexpected(word)
	}
}

// plain are the keys that take nothing more.
var plain = map[string]Func{"bearer": Bearer(), "host": Host, "method": Method, "route": Route, "global": Global}

// withName are the keys of a name.
var withName = map[string]func(name string) (Func, error){
	"header": func(name string) (Func, error) {
		switch {
		case !isToken(name):
			return nil, fmt.Errorf("%q is no name of a header: write header X-API-Key", name)
		case strings.EqualFold(name, "Host"):
			return nil, errors.New("the header Host is kept apart: write host")
		}
		return Header(name), nil
	},
	"cookie": func(name string) (Func, error) {
		if !isToken(name) {
			return nil, fmt.Errorf("%q is no name of a cookie: write cookie session", name)
		}
		return Cookie(name), nil
	},
	"path": func(name string) (Func, error) {
		if name == "" || name == ")" {
			return nil, errors.New("path has no name: write path id, for the {id} of a pattern")
		}
		return PathValue(name), nil
	},
}

// address reads "ip" and its trust model.
func (p *parser) address() ([]Trust, error) {
	if word := p.next(); word != "ip" {
		return nil, fmt.Errorf("%q is no address: write ip, or ip trusted 10.0.0.0/8", word)
	}
	var trust []Trust
	model := ""
	for {
		word := p.peek()
		switch word {
		case "ipv4", "ipv6":
			p.next()
			bits, err := p.number(word, addressBits[word])
			if err != nil {
				return nil, err
			}
			trust = append(trust, map[string]func(int) Trust{"ipv4": IPv4Prefix, "ipv6": IPv6Prefix}[word](bits))
		case "trusted", "hops", "header", "forwarded":
			p.next()
			if model != "" {
				return nil, fmt.Errorf("it has two trust models, %s and %s: choose one", model, word)
			}
			model = word
			t, err := p.model(word)
			if err != nil {
				return nil, err
			}
			trust = append(trust, t)
		case "", ")", "and", "or":
			return trust, nil
		default:
			return nil, fmt.Errorf(`%q is nothing that ip knows: write trusted, hops, header, forwarded, ipv4 or ipv6 behind it`, word)
		}
	}
}

// addressBits are how many bits of an address may count.
var addressBits = map[string][2]int{"ipv4": {8, 32}, "ipv6": {32, 128}}

// model reads a trust model.
func (p *parser) model(word string) (Trust, error) {
	switch word {
	case "hops":
		n, err := p.number(word, [2]int{1, mostEntries})
		if err != nil {
			return nil, err
		}
		return TrustedHops(n), nil
	case "header":
		name := p.next()
		switch canonical := http.CanonicalHeaderKey(name); {
		case !isToken(name):
			return nil, fmt.Errorf("%q is no name of a header: write ip header X-Real-IP", name)
		case canonical == "X-Forwarded-For":
			return nil, errors.New("X-Forwarded-For is a list: write ip trusted and the addresses of your proxies, or ip hops and their number")
		case canonical == "Forwarded":
			return nil, errors.New("Forwarded is a list: write ip forwarded and the addresses of your proxies")
		}
		peers, err := p.prefixes()
		return TrustedHeader(name, peers...), err
	}
	prefixes, err := p.prefixes()
	switch {
	case err != nil:
		return nil, err
	case len(prefixes) == 0:
		return nil, fmt.Errorf("%s has no address: write those of your proxies behind it, such as 10.0.0.0/8", word)
	case word == "forwarded":
		return Forwarded(prefixes...), nil
	}
	return TrustedProxies(prefixes...), nil
}

// number reads a number within bounds.
func (p *parser) number(of string, bounds [2]int) (int, error) {
	word := p.next()
	n, err := strconv.Atoi(word)
	if err != nil || n < bounds[0] || n > bounds[1] {
		return 0, fmt.Errorf("%q behind %s is no number from %d to %d", word, of, bounds[0], bounds[1])
	}
	return n, nil
}

// prefixes reads addresses and prefixes, as many as there are.
func (p *parser) prefixes() (texts []string, err error) {
	for strings.ContainsAny(p.peek(), ".:/") {
		text := p.next()
		if _, err := parsePrefix(text); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}
