package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

// ParseURL parses a store's URL: memory:, redis://, rediss:// or unix://. Its errors go on after "the store's URL", as in "is empty". They
// repeat nothing that may be a password, or a part of one that is not escaped.
func ParseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New(`is empty: write "memory:", or "redis://" and a host`)
	}
	first, _ := utf8.DecodeRuneInString(text)
	if unicode.IsSpace(first) {
		return nil, fmt.Errorf("begins with %q: remove the white space", first)
	}
	if last, _ := utf8.DecodeLastRuneInString(text); unicode.IsSpace(last) {
		return nil, fmt.Errorf("ends with %q: remove the white space", last)
	}
	scheme, _, _ := strings.Cut(strings.ToLower(text), ":")
	switch host, port, err := net.SplitHostPort(text); {
	case strings.EqualFold(text, "memory"):
		return nil, fmt.Errorf("is %q: write %q", text, "memory:")
	case first == '/':
		return nil, errors.New(`lacks a scheme: write "unix://" in front of a socket's path`)
	case isScheme(scheme) || strings.Contains(text, "://"):
	case err == nil && isHost(host) && isPort(port):
		return nil, fmt.Errorf("is %q: write %q", text, "redis://"+text)
	default:
		return nil, errors.New(`lacks a scheme: write "redis://" in front of the host`)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // err repeats the URL, and the password in it
		return nil, errMalformed
	case !isScheme(u.Scheme):
		return nil, fmt.Errorf("must start with memory:, redis:// (for Valkey, too), rediss:// or unix://, not with %q", u.Scheme+":")
	case u.Scheme == "memory":
		if len(text) > len("memory:") {
			return nil, fmt.Errorf("has something behind %q: write %q alone", "memory:", "memory:")
		}
		return u, nil
	}
	return u, checkServer(u)
}

// errMalformed names the most frequent mistakes in a URL that cannot be parsed.
var errMalformed = errors.New("is malformed: a port is a number, and /, ?, #, @, : and % in a user or password are written %2F, %3F, %23, %40, %3A and %25")

// checkServer returns an error if the URL of a server is wrong.
func checkServer(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return errMalformed // a password that is not escaped has ended the host too soon
	}
	for name, values := range query {
		if mayHaveAt := name == "addr" || strings.HasSuffix(name, "name") || strings.HasSuffix(name, "password"); mayHaveAt {
			values = nil
		}
		if strings.Contains(name+strings.Join(values, ""), "@") {
			return errMalformed // the same
		}
	}
	switch {
	case u.Scheme == "unix" && u.Host != "":
		return errors.New("has a host between unix:// and the socket's path: write three slashes, as in unix:///run/redis.sock")
	case u.Opaque != "" || u.Scheme == "unix" && u.Path == "":
		return fmt.Errorf("lacks what follows %s://: write redis:// and a host, or unix:// and a socket's path", u.Scheme)
	case u.Scheme != "unix" && u.Host == "":
		return fmt.Errorf("names no host after %s://: write %q", u.Scheme, u.Scheme+"://localhost:6379")
	case u.Port() != "" && !isPort(u.Port()):
		if len(u.Port()) > len("65535") || u.Hostname() == "" { // it may be a password
			return errors.New("has a port that is not from 1 to 65535")
		}
		return fmt.Errorf("has port %s: a port is from 1 to 65535", u.Port())
	}
	for _, address := range query["addr"] {
		_, port, err := net.SplitHostPort(address)
		switch {
		case strings.Contains(address, "@"):
			return errors.New("has a user or password in addr: they stand in front of the first host, for all servers")
		case err == nil && !isPort(port):
			return fmt.Errorf("has addr=%s: a port is from 1 to 65535", address)
		}
	}
	return nil
}

func isScheme(name string) bool {
	switch name {
	case "memory", "redis", "rediss", "unix":
		return true
	}
	return false
}

// isHost reports whether a text is a name or an address without user and password.
func isHost(text string) bool {
	return text != "" && !strings.ContainsAny(text, "/?#@%=& ")
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// ClientOf returns the client that a URL of Redis describes, with the query that [ParseURL] has read from it. The client heeds
// deadlines, and repeats nothing unless the URL says so.
func ClientOf(rawURL string, query url.Values) (redis.UniversalClient, error) {
	switch {
	case query.Has("master_name"):
		if query.Get("master_name") == "" {
			return nil, errors.New("master_name is empty")
		}
		options, err := redis.ParseFailoverURL(rawURL)
		if err == nil {
			err = checkPool(options.PoolSize)
		}
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled = true
		options.MaxRetries = retries(options.MaxRetries)
		options.PoolSize = connections(options.PoolSize)
		options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err == nil {
			err = checkPool(options.PoolSize)
		}
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled = true
		options.MaxRetries = retries(options.MaxRetries)
		options.PoolSize = connections(options.PoolSize)
		options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(rawURL)
	if err == nil {
		err = checkPool(options.PoolSize)
	}
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = retries(options.MaxRetries)
	options.PoolSize = connections(options.PoolSize)
	options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
	return redis.NewClient(options), nil
}

// mostConnections bounds the pool of a client, which allocates room for all connections at once.
const mostConnections = 1 << 20

// checkPool returns an error for a pool size with which the client would panic.
func checkPool(size int) error {
	if size < 0 || size > mostConnections {
		return fmt.Errorf("pool_size=%d: want 1 to %d, or 0 for the default", size, mostConnections)
	}
	return nil
}

// leastConnections is how many connections a pool has at least, unless the URL says otherwise. They are opened when they
// are needed: a server that is 40 ms away needs this many for 20,000 settlements and 50,000 checks a second.
const leastConnections = 32

// connections returns the size of a pool, of which 0 is the default: ten for each processor, as go-redis has it, and no fewer
// than leastConnections.
func connections(asked int) int {
	if asked == 0 {
		return max(leastConnections, 10*runtime.GOMAXPROCS(0))
	}
	return asked
}

// retries returns a number of retries as go-redis takes it, to which 0 is the default.
func retries(asked int) int {
	if asked == 0 {
		return -1
	}
	return asked
}
