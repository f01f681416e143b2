package core

import "github.com/weir-go/ratelimit/core/internal/keyspace"

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

// entryKey tells a state from all others.
type entryKey struct {
	key      string
	identity *ruling
}

// entryKey returns that of the state which a check is about.
func (c *Check) entryKey() entryKey { return entryKey{keyspace.Shorten(c.Key), c.ruling().identity} }
