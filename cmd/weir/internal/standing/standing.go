// Package standing says how the keys of a store stand under a limit before and after a change of its numbers.
package standing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/policies"
)

// atOnce is how many keys one call peeks at, twice.
const atOnce = 50

// Effect counts how a change of numbers would fall on the keys that have used some of a limit, if it came now.
type Effect struct {
	// Was and Now are the limit with its old and its new numbers.
	Was string `json:"was"`
	Now string `json:"now"`
	// Plan says that the limit is one of several plans. The store does not know which key is of which.
	Plan bool `json:"plan,omitempty"`
	// Keys is how many keys have a state, except for shadows' and for keys that are too long to be known.
	Keys int `json:"keys"`
	// DeniedWas and DeniedNow are how many keys a request that costs one would be denied under the old and the new numbers.
	DeniedWas int `json:"denied_was"`
	DeniedNow int `json:"denied_now"`
	// Begin is how many keys would be denied that pass under the old numbers, and End how many would pass that do not.
	Begin int `json:"begin"`
	End   int `json:"end"`
	// Denied are the keys that would begin to be denied. The ones that have used most come first.
	Denied []Key `json:"denied,omitempty"`
}

// Key is how a key would stand under the new numbers.
type Key struct {
	Key      string `json:"key"`
	Used     int    `json:"used"`
	Capacity int    `json:"capacity"`
	// RetryAfter is when a request that costs one would pass, in nanoseconds.
	RetryAfter time.Duration `json:"retry_after_ns"`
}

// of is a limit that changes, and the effect of that.
type of struct {
	before, after core.Limit
	effect        Effect
}

// Compare peeks at all keys of a store under the old and the new numbers of each limit that changes and keeps its state. Each effect lists at
// most rows keys.
func Compare(ctx context.Context, limiter *core.Limiter, changes policies.Changes, rows int) ([]Effect, error) {
	all := make([]of, 0, len(changes))
	for _, c := range changes {
		if c.Before != (core.Limit{}) && c.After != (core.Limit{}) {
			all = append(all, of{c.Before, c.After, Effect{Was: c.Before.String(), Now: c.After.String(), Plan: c.Of == "plan"}})
		}
	}
	effects := make([]Effect, len(all))
	if len(all) == 0 {
		return effects, nil
	}
	seen := make(map[admin.Entry]bool)
	for cursor := ""; ; {
		page, next, err := admin.List(ctx, limiter, "", cursor)
		if err != nil {
			return nil, err
		}
		page = slices.DeleteFunc(page, func(entry admin.Entry) bool {
			known := seen[entry]
			seen[entry] = true
			return known || !entry.Named || entry.Shadow || entry.Hashed
		})
		for i := range all {
			if err := all[i].add(ctx, limiter, page, rows); err != nil {
				return nil, err
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	for i := range all {
		all[i].trim(rows)
		effects[i] = all[i].effect
	}
	return effects, nil
}

// add peeks at those of some entries that are of the limit.
func (o *of) add(ctx context.Context, limiter *core.Limiter, entries []admin.Entry, rows int) error {
	var checks []core.Check
	for _, entry := range entries {
		if entry.Limit == o.after.Name() && entry.Algorithm == o.after.Algorithm() {
			checks = append(checks, core.Check{Key: entry.Key})
		}
	}
	for part := range slices.Chunk(checks, atOnce) {
		before, err := o.peek(ctx, limiter, part, o.before)
		if err != nil {
			return err
		}
		after, err := o.peek(ctx, limiter, part, o.after)
		if err != nil {
			return err
		}
		for i := range part {
			o.count(part[i].Key, before[i], after[i])
		}
		if len(o.effect.Denied) > 2*rows+atOnce {
			o.trim(rows)
		}
	}
	return nil
}

func (o *of) peek(ctx context.Context, limiter *core.Limiter, checks []core.Check, limit core.Limit) ([]core.Decision, error) {
	for i := range checks {
		checks[i].Limit = limit
	}
	decisions, err := limiter.PeekAll(ctx, checks...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", limit, err)
	}
	return decisions, nil
}

// count counts a key.
func (o *of) count(key string, before, after core.Decision) {
	e := &o.effect
	e.Keys++
	if !before.Allowed {
		e.DeniedWas++
	}
	if !after.Allowed {
		e.DeniedNow++
	}
	switch {
	case before.Allowed && !after.Allowed:
		e.Begin++
		// The usage is told by the old numbers: under the new ones it may be more than there is.
		used := before.Limit.Capacity() - before.Remaining
		e.Denied = append(e.Denied, Key{key, used, after.Limit.Capacity(), after.RetryAfter})
	case !before.Allowed && after.Allowed:
		e.End++
	}
}

// trim keeps the keys that have used most.
func (o *of) trim(rows int) {
	denied := o.effect.Denied
	slices.SortFunc(denied, func(a, b Key) int { return cmp.Or(b.Used-a.Used, cmp.Compare(a.Key, b.Key)) })
	o.effect.Denied = denied[:min(len(denied), rows)]
}
