package core

import (
	"crypto/sha256"
	"encoding/base64"
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

// shortKey returns a key to keep in memory for a caller's: itself, or a hash where that
// is long. What looks like a hash is hashed, too, so that no two keys meet.
func shortKey(key string) string {
	if len(key) <= longestSubject && !strings.HasPrefix(key, "#") {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// entryKey tells a state from all others.
type entryKey struct {
	key      string
	identity unique.Handle[enforced]
}
