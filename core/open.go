package core

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

// Open returns a Limiter on the store that a URL names. It sends nothing, so it
// succeeds while Redis is down; call [Limiter.Ping] to know.
//
//	memory:                                        a store in this process, as NewMemory makes it
//	redis://user:password@localhost:6379/0         one server
//	rediss://localhost:6379                        the same with TLS; see "Encryption" at NewRedis
//	unix:///run/redis.sock?db=0                    over a Unix socket
//	redis://host1:6379?addr=host2:6379             a cluster: at least one "addr"
//	redis://host1:26379?master_name=main           Sentinel: "master_name", and more
//	                                               sentinels as "addr"
//
// Other query parameters are those of go-redis, such as pool_size=20 or
// dial_timeout=1s; see its ParseURL, ParseClusterURL and ParseFailoverURL. In a
// Sentinel URL the user and password are the sentinels'; those of the servers
// are the parameters "username" and "password".
//
// The options are those of [NewMemory] or [NewRedis], as the URL says, and those of [New]. Any
// other one, such as [WithBudget] for memory: or [WithMaxKeys] for Redis, is an error.
// [WithClock], [WithLogger] and [WithTrace] suit every URL.
//
// The client heeds deadlines, and never repeats a call that may have been charged,
// unless max_retries says so. In a cluster, go-redis also follows as many
// redirections as max_redirects allows. Close closes the client.
//
// An error says what is wrong with the URL and never repeats a password.
func Open(rawURL string, options ...Option) (*Limiter, error) {
	store, err := OpenStore(rawURL, options...)
	if err != nil {
		return nil, err
	}
	return New(store, optionsFor(options, ofLimiter)...), nil
}

// OpenStore returns the store that a URL names, so that another store can stand between it and the
// Limiter:
//
//	store, err := core.OpenStore("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	limiter := core.New(core.CacheDenials(store, 10_000))
//	defer limiter.Close()
//
// The URL, the options and the errors are those of [Open]. OpenStore accepts an option of a Limiter,
// so that one list serves both, but a store has no use for it: give it to [New], too.
// Close of the store, or of the Limiter on it, closes the client.
func OpenStore(rawURL string, options ...Option) (Store, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("core: the store's URL %w", err)
	}
	switch u.Scheme {
	case "memory":
		if err := rejectOthers(options, ofMemory, "is an option of Redis and does not apply to memory:"); err != nil {
			return nil, err
		}
		return NewMemory(optionsFor(options, ofMemory)...), nil
	default:
		if err := rejectOthers(options, ofRedis, "is an option of memory: and does not apply to "+u.Scheme+"://"); err != nil {
			return nil, err
		}
		client, err := clientOf(rawURL, u.Query())
		if err != nil {
			return nil, fmt.Errorf("core: the store's URL: %w", err)
		}
		return newRedis(client, true, true, optionsFor(options, ofRedis)), nil
	}
}

// parseURL parses a store's URL. Its errors go on after "the store's URL", as in "is empty". They
// repeat nothing that may be a password, or a part of one that is not escaped.
func parseURL(text string) (*url.URL, error) {
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

// optionsFor returns the options of one kind.
func optionsFor[T any](options []Option, kind func(*Option) func(*T)) []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return kind(&o) == nil })
}

// rejectOthers returns an error if an option is neither of a kind nor a Limiter's. It names the first
// one.
func rejectOthers[T any](options []Option, kind func(*Option) func(*T), why string) error {
	for i := range options {
		if o := &options[i]; o.name != "" && kind(o) == nil && ofLimiter(o) == nil {
			return fmt.Errorf("core: %s %s", o.name, why)
		}
	}
	return nil
}

// clientOf returns the client that a Redis URL describes.
func clientOf(rawURL string, query url.Values) (redis.UniversalClient, error) {
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

// retries returns a number of retries as go-redis takes it, to which 0 is the default.
func retries(asked int) int {
	if asked == 0 {
		return -1
	}
	return asked
}
