package guard

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// List is a set of addresses and keys: a [lists.List], or a [lists.Live] that changes while
// requests are served. Its methods are called by many goroutines at once, and must not block.
//
// [lists.List]: https://pkg.go.dev/github.com/weir-go/ratelimit/lists#List
// [lists.Live]: https://pkg.go.dev/github.com/weir-go/ratelimit/lists#Live
type List interface {
	// Has reports whether an address or a key is in the list. The zero Addr stands for a peer
	// without an address, and "" for a request without a key: neither is in any list. A list
	// that changes answers about both as they were at one moment.
	Has(address netip.Addr, key string) bool
	// Keys returns how many keys the list has.
	Keys() int
}

// Lists decide before all policies. A client in Allow passes, even if Deny or a policy
// would deny it, and a client in Deny is answered with 403. Neither costs a call of the store or
// a unit, and neither is told of a limit. All others go on to the policies. The zero value has no
// lists, and costs nothing.
//
// Lists hold for one middleware. Give them to those inside as well if a client in Allow is
// to be exempt from their policies, too.
//
// Never allow an address or a key that a client can forge. Behind a proxy the peer is the proxy, so that a list
// with the proxy's address allows everybody: name the proxies in Address. A key must be
// verified before it is looked up.
type Lists struct {
	// Allow lists the clients that no policy limits. The default is nil, an empty list.
	Allow List

	// Deny lists the clients that the middleware denies. The default is nil, an empty list.
	Deny List

	// Address finds the client's address, to be looked up among the prefixes of the lists. The
	// default is the TCP peer, which no client can forge. Behind proxies, it is
	// [keyfuncs.Address] with the Trust that is given to [keyfuncs.IP]. The zero Addr, of a
	// peer on a unix socket, is in no prefix.
	Address func(*http.Request) netip.Addr

	// By finds the key to be looked up among the keys of the lists, such as [keyfuncs.User]:
	// a request without one is in no list by its key. Any other error of it is answered with
	// 500, unless Allow has the address. The default is nil: no key is looked up. It is a
	// mistake if a list has keys when the program starts.
	By keyfuncs.Func
}

// used reports whether there is a list.
func (l *Lists) used() bool { return l.Allow != nil || l.Deny != nil }

// check returns the reason why lists make no sense, if they do not.
func (l *Lists) check() error {
	for _, one := range [...]struct {
		name string
		list List
	}{{"Allow", l.Allow}, {"Deny", l.Deny}} {
		if one.list != nil && l.By == nil && one.list.Keys() > 0 {
			return fmt.Errorf("Options.Lists.%s has %d keys, and By is nil: set By, which finds the key of a request", one.name, one.list.Keys())
		}
	}
	if !l.used() && (l.Address != nil || l.By != nil) {
		return errors.New("Options.Lists has neither Allow nor Deny: leave Address and By out, too")
	}
	return nil
}

// find looks a request up in the lists. With an error, the key of the request
// could not be found out, and the request is not to be served.
func (l *Lists) find(r *http.Request) (allowed, denied bool, err error) {
	address := l.Address(r)
	key, err := l.key(r)
	if l.Allow != nil && l.Allow.Has(address, key) {
		return true, false, nil
	}
	if err != nil {
		return false, false, err
	}
	return false, l.Deny != nil && l.Deny.Has(address, key), nil
}

// key returns the key of a request, or "" if it has none.
func (l *Lists) key(r *http.Request) (string, error) {
	if l.By == nil {
		return "", nil
	}
	switch key, err := l.By(r); {
	case errors.Is(err, keyfuncs.ErrNoKey):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ratelimit: Lists.By: %w", err)
	default:
		return key, nil
	}
}
