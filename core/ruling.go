package core

import (
	"strings"
	"unique"
)

// enforced is a limit as it is asked.
type enforced struct {
	limit  Limit
	shadow bool
}

// ruling is what the states under a limit have in common.
type ruling struct {
	limit Limit
	// identity is the same for whatever shares a state, and a word long.
	identity unique.Handle[enforced]
}

// rulings keeps the ruling of each limit. The zero value is empty. It may be used
// concurrently.
type rulings struct {
	limitCache[enforced, *ruling]
}

func (r *rulings) of(limit *Limit, shadow bool) *ruling {
	e := enforced{*limit, shadow}
	found, ok := r.find(&e)
	if !ok {
		found = r.add(e, &ruling{limit: e.limit, identity: unique.Make(enforced{e.limit.identity(), shadow})})
	}
	return found
}

// shortKey returns a key to keep in memory for a caller's: itself, or a hash where it
// would be hashed in a Redis key, too. One that looks like a hash gets a mark more, which
// no hash has, so that no two keys meet.
func shortKey(key string) string {
	switch {
	case isLong(key):
		return string(appendHash(nil, key))
	case strings.HasPrefix(key, hashMark):
		return hashMark + key
	}
	return key
}

// callersKey returns the key that shortKey was given, or what stands for it.
func callersKey(short string) (key string, hashed bool) {
	if key, marked := strings.CutPrefix(short, hashMark+hashMark); marked {
		return hashMark + key, false
	}
	return short, strings.HasPrefix(short, hashMark)
}

// entryKey tells a state from all others.
type entryKey struct {
	key      string
	identity unique.Handle[enforced]
}
