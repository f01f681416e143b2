package redisstore

import (
	"slices"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// run is a script run: requests that one script decides, or carries out, one after the other.
type run struct {
	does   script.Task
	of     exact.Algorithm // or script.Mixed
	groups []*requestGroup
}

// reach says how much the script of a request knows. A script of a higher reach can do what one of a lower reach does.
type reach uint8

const (
	places  reach = iota // to give back places
	one                  // an algorithm
	general              // all algorithms, and what is reserved for a time if any of the requests does that
)

// reachOf returns the reach that a request needs.
func reachOf(q *script.Request) reach {
	switch {
	case q.Of == script.Mixed || len(q.Reserving) > 0:
		return general
	case q.Releases:
		return places
	}
	return one
}

// add adds a request to a run, which does what all of its requests need.
func (r *run) add(g *requestGroup) {
	r.groups = append(r.groups, g)
	r.does = reserving(r.does, g.Request())
}

// reserving returns the task that is to be done for a request besides what others need.
func reserving(does script.Task, q *script.Request) script.Task {
	switch {
	case len(q.Reserving) == 0:
		return does
	case does.Settles():
		return script.Close
	}
	return script.Reserve
}

// newRun returns an empty run for requests of a reach that are of an algorithm.
func newRun(does script.Task, of exact.Algorithm, within reach) run {
	switch within {
	case places:
		return run{does: script.Release, of: script.Mixed}
	case general:
		of = script.Mixed
	case one:
	}
	return run{does: does, of: of}
}

// runOf returns the run of all requests of a batch, if one script suits each of them best. It makes nothing new.
func runOf(does script.Task, groups []*requestGroup) (all run, ok bool) {
	first := groups[0].Request()
	within := reachOf(first)
	all = newRun(does, first.Of, within)
	all.groups = groups
	for _, g := range groups {
		q := g.Request()
		if reachOf(q) != within || within == one && q.Of != first.Of {
			return run{}, false
		}
		all.does = reserving(all.does, q)
	}
	return all, true
}

// runsOf parts a batch into runs: one for each script that its requests need or, unless they can be packed, one for each
// request.
//
// Requests about the same key have the same script, and so keep their order: in a run, and in a pipeline whose server
// lacks some of the scripts.
func runsOf(does script.Task, groups []*requestGroup, packs bool) (runs []run) {
	reaches := reachesOf(groups)
	for i, g := range groups {
		fresh := newRun(does, g.Request().Of, reaches[i])
		place := -1
		if packs {
			place = slices.IndexFunc(runs, func(r run) bool {
				return r.of == fresh.of && (r.does == script.Release) == (fresh.does == script.Release)
			})
		}
		if place < 0 {
			place, runs = len(runs), append(runs, fresh)
		}
		runs[place].add(g)
	}
	return runs
}

// reachesOf returns the reaches of the scripts for requests: those of requests that share a key are the same.
func reachesOf(groups []*requestGroup) []reach {
	reaches := make([]reach, len(groups))
	for i, g := range groups {
		reaches[i] = reachOf(g.Request())
	}
	if slices.Min(reaches) == slices.Max(reaches) { // requests of different algorithms share no key
		return reaches
	}
	highest := make(map[any]reach) // of the requests about a key
	for risen := true; risen; {
		risen = false
		for i, g := range groups {
			within := reaches[i]
			for _, key := range g.Request().Keys {
				within = max(within, highest[key])
			}
			for _, key := range g.Request().Keys {
				risen = risen || highest[key] < within
				highest[key] = within
			}
			reaches[i] = within
		}
	}
	return reaches
}

// parted returns a run for each request of one. They have the same script, so that requests about the same key keep
// their order.
func (r run) parted() []run {
	runs := make([]run, len(r.groups))
	for i := range r.groups {
		runs[i] = run{r.does, r.of, r.groups[i : i+1]}
	}
	return runs
}
