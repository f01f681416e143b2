package lists

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
)

// List is a set of addresses, given by prefixes, and of keys. It never changes, and may be
// used by many goroutines at once. The zero value and nil are the empty list.
type List struct {
	prefixes bart.Lite
	keys     map[string]struct{}
}

// Of returns the list of some entries: Of("203.0.113.0/24", "203.0.113.9", "key:user:42"). The package documentation
// describes entries. Of panics on anything else, so it is for entries that stand in the program; for others there are
// [Parse] and [Watch].
func Of(entries ...string) *List {
	l, err := listOf(entries)
	if err != nil {
		panic("lists: Of: " + err.Error())
	}
	return l
}

// listOf returns the list of some entries, or an error that says which one is wrong.
func listOf(entries []string) (*List, error) {
	l := new(List)
	for _, entry := range entries {
		if err := l.add(entry); err != nil {
			return nil, fmt.Errorf("entry %q: %w", entry, err)
		}
	}
	return l, nil
}

// add adds an entry to a list that no other goroutine has yet.
func (l *List) add(entry string) error {
	key, isKey, err := parseKey(entry)
	switch {
	case err != nil:
		return err
	case isKey:
		l.addKey(key)
		return nil
	}
	prefix, err := parsePrefix(entry)
	if err != nil {
		return err
	}
	l.prefixes.Insert(prefix)
	return nil
}

func (l *List) addKey(key string) {
	if l.keys == nil {
		l.keys = make(map[string]struct{})
	}
	l.keys[key] = struct{}{}
}

// Has reports whether an address is in one of the prefixes, or a key in the list, byte for byte. An IPv4-mapped IPv6 address is
// the IPv4 address, and a zone does not count. The zero Addr, which stands for a peer without an address, is in no list, and
// neither is the empty key, of a request that has none. Has allocates nothing.
func (l *List) Has(address netip.Addr, key string) bool {
	if l == nil {
		return false
	}
	_, found := l.keys[key]
	return l.prefixes.Contains(address.Unmap().WithZone("")) || key != "" && found
}

// Prefixes returns how many different prefixes the list has, single addresses included.
func (l *List) Prefixes() int {
	if l == nil {
		return 0
	}
	return l.prefixes.Size()
}

// Keys returns how many different keys the list has.
func (l *List) Keys() int {
	if l == nil {
		return 0
	}
	return len(l.keys)
}
