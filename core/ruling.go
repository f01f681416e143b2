package core

import "unique"

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

// entryKey tells a state from all others.
type entryKey struct {
	key      string
	identity unique.Handle[enforced]
}
