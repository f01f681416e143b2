package descriptors

import (
	"maps"
	"slices"
)

// By tells how an entry of a descriptor has led one level down in the files.
type By string

// The ways of an entry.
const (
	ByValue By = "value" // by the descriptor that has its key and its value
	ByStar  By = "star"  // by a descriptor that has a star, and matches
	ByKey   By = "key"   // by the descriptor that has its key and no value
	ByNone  By = "none"  // by none: nothing in the files is for it
)

// Step is the way of one entry.
type Step struct {
	By By
	// Descriptor is the key and the value in the files. It is that of the entry if there is none.
	Descriptor Entry
	// Shared says that all values that match the star share one limit.
	Shared bool
}

// Meet returns how a descriptor meets the configuration: a step for each entry, up to the first one for which there is nothing. If there is a step by way
// of something for each entry, [Config.Find] returns the limit of the last one, if that has a limit.
func (c *Config) Meet(domain string, entries []Entry) []Step {
	at := c.domains[domain]
	if at == nil {
		return nil
	}
	var steps []Step
	for _, e := range entries {
		next, by := at.next(e)
		step := Step{By: ByKey, Descriptor: Entry{Key: e.Key}}
		switch {
		case next == nil:
			step = Step{By: ByNone, Descriptor: e}
		case by != nil:
			step = Step{By: ByStar, Descriptor: by.Entry, Shared: by.shared}
		case next == at.valued[e]:
			step = Step{By: ByValue, Descriptor: e}
		}
		steps = append(steps, step)
		if next == nil {
			break
		}
		at = next
	}
	return steps
}

// Names returns the names of all domains, in order.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.domains)) }
