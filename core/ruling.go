package core

import (
	"strings"
)

// ruling is a limit as it is asked, enforced or as a shadow: what the states under it
// have in common.
type ruling struct {
	limit  Limit
	shadow bool
	// identity is the same for all rulings that share a state: those of named limits
	// whose name and algorithm are the same.
	identity *ruling
}

// ruling returns the one under which a check is.
func (c *Check) ruling() *ruling {
	if c.Shadow {
		return &c.Limit.rulings[1]
	}
	return &c.Limit.rulings[0]
}

// identity returns what a limit's state has in common with those of others.
func (r *rule) identity() *ruling { return r.rulings[0].identity }

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
	identity *ruling
}

// entryKey returns that of the state which a check is about.
func (c *Check) entryKey() entryKey { return entryKey{shortKey(c.Key), c.ruling().identity} }
