package redisstore

import (
	"errors"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// run is a script run: requests that one script decides, or carries out, one after the other.
type run struct {
	within reach
	does   script.Task
	of     exact.Algorithm // or script.Mixed
	groups []*requestGroup
}

// mostKeys is the most keys of a script run for a task, unless one request has more: Redis serves no other client during a
// run. Measured for as many keys, in milliseconds of Redis: checks 0.2 and under sliding logs 0.3, calls of two checks 0.15 to 0.35,
// places 0.2, and reservations and settlements 0.1 to 0.3. BenchmarkHeld measures them.
var mostKeys = [script.Tasks]int{
	script.OwnCheck: 64,
	script.Decide:   32, script.Release: 32, script.OwnReserve: 32, script.OwnSettle: 32,
	script.Reserve: 16, script.Settle: 16, script.Close: 16,
}

// mostInstants is the most units that a script run writes to logs, unless one request has more: Redis takes 0.2 to 0.4 µs for each.
const mostInstants = 1000

// tooSlow reports whether a script run for a task has too much to do. Reservations for a time have two keys each.
func tooSlow(does script.Task, groups []*requestGroup) bool {
	keys, instants := 0, 0
	for _, g := range groups {
		keys += len(g.Request.Keys) + len(g.Request.Reserving)
		instants += g.Request.Instants(g.Len)
	}
	return keys > mostKeys[does] || instants > mostInstants
}

// reach tells which requests a script can handle. Those of a higher reach than plain and reserving can handle these requests, too.
type reach uint8

const (
	places    reach = iota // to give back places
	plain                  // to decide checks, or to carry out settlements, of an algorithm with states as their limits leave them
	reserving              // to decide such checks, also those that reserve
	general                // all algorithms, and reservations for a time if a request of the batch has any
)

// reachOf returns the reach that a request needs.
func reachOf(q *script.Request) reach {
	switch {
	case q.Reserves:
		return reserving
	case q.Plain:
		return plain
	case q.Of == script.Mixed || len(q.Reserving) > 0:
		return general
	case q.Releases:
		return places
	}
	return general
}

// generalTask returns the task of the general runs of a batch: one for all, so that requests about a key have one script.
func generalTask(does script.Task, groups []*requestGroup) script.Task {
	for _, g := range groups {
		switch {
		case g.Request.Plain || len(g.Request.Reserving) == 0:
		case does.Settles():
			return script.Close
		default:
			return script.Reserve
		}
	}
	return does
}

// plainTask has the task of the plain requests among the requests of a task.
var plainTask = [script.Tasks]script.Task{script.Decide: script.OwnCheck, script.Settle: script.OwnSettle}

// newRun returns an empty run for requests of a reach that are of an algorithm.
func newRun(does script.Task, of exact.Algorithm, within reach) run {
	switch within {
	case places:
		does, of = script.Release, script.Mixed
	case plain:
		does = plainTask[does]
	case reserving:
		does = script.OwnReserve
	case general:
		of = script.Mixed
	}
	return run{within: within, does: does, of: of}
}

// runOf returns the run of all requests of a batch, if one script suits each of them best. It makes nothing new.
func runOf(does script.Task, groups []*requestGroup) (all run, ok bool) {
	first := groups[0].Request
	if first.Plain && !first.Reserves && len(groups) == 1 {
		return run{within: plain, does: plainTask[does], of: first.Of, groups: groups}, true
	}
	within := reachOf(first)
	for _, g := range groups[1:] {
		if q := g.Request; reachOf(q) != within || (within == plain || within == reserving) && q.Of != first.Of {
			return run{}, false
		}
	}
	if within == general {
		does = generalTask(does, groups)
	}
	all = newRun(does, first.Of, within)
	all.groups = groups
	return all, len(groups) == 1 || !tooSlow(all.does, groups)
}

// runsOf splits a batch into runs: one for each script that its requests need or, unless they can be packed, one for each
// request.
//
// Requests about the same key have the same script, and join its last run, so they keep their order: in a run, and in a pipeline
// to a server that lacks some of the scripts.
func runsOf(does script.Task, groups []*requestGroup, packs bool) (runs []run) {
	reaches := reachesOf(groups)
	for i, g := range groups {
		if q := g.Request; q.Plain && reaches[i] > reserving { // it shares a key with a request that is not
			q.Explain()
		}
	}
	inGeneral := generalTask(does, groups)
	for i, g := range groups {
		fresh, place := newRun(does, g.Request.Of, reaches[i]), -1
		if reaches[i] == general {
			fresh.does = inGeneral
		}
		if packs {
			place = lastRun(runs, fresh)
		}
		if place < 0 || tooSlow(fresh.does, append(runs[place].groups, g)) {
			place, runs = len(runs), append(runs, fresh)
		}
		runs[place].groups = append(runs[place].groups, g)
	}
	return runs
}

// lastRun returns the place of the last run with the script of another one, or -1.
func lastRun(runs []run, other run) int {
	for i, r := range slices.Backward(runs) {
		if r.of == other.of && r.within == other.within {
			return i
		}
	}
	return -1
}

// reachesOf returns the reaches of the scripts for requests: those of requests that share a key are the same.
func reachesOf(groups []*requestGroup) []reach {
	reaches := make([]reach, len(groups))
	for i, g := range groups {
		reaches[i] = reachOf(g.Request)
	}
	if slices.Min(reaches) == slices.Max(reaches) { // requests of different algorithms share no key
		return reaches
	}
	highest := make(map[any]reach) // of the requests about a key
	for risen := true; risen; {
		risen = false
		for i, g := range groups {
			within := reaches[i]
			for _, key := range g.Request.Keys {
				within = max(within, highest[key])
			}
			for _, key := range g.Request.Keys {
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
		runs[i] = run{within: r.within, does: r.does, of: r.of, groups: r.groups[i : i+1]}
	}
	return runs
}

// scriptReply is a server's reply to a batch.
type scriptReply struct {
	text    string
	instant bool // the instant of the decision was asked for
	err     error
}

// share gives each group its part of the reply. It returns the error of the script run, or an error if
// the reply is none to these requests.
func (a scriptReply) share(one run) error {
	groups := one.groups
	text, refusal, refused := strings.Cut(a.text, "\n") // behind corrections, of which Redis has refused some
	numbers := script.Reader{Rest: text}
	for _, g := range groups {
		g.Answer.Text = numbers.Cut(g.Request.Numbers)
	}
	at, ok := numbers.End(a.instant)
	err := a.err
	if err == nil && (!ok || refused && !one.does.Settles()) {
		err = script.Garbled(a.text)
	}
	for _, g := range groups {
		g.Answer.At, g.Err = at, err
	}
	if err == nil && refused {
		return shareRefusal(groups, refusedBy(refusal))
	}
	return err
}

// shareRefusal gives an error to the groups with corrections that Redis has refused, and returns it if
// those are all groups. If some corrections of a group were carried out, its error has the places of the
// others.
func shareRefusal(groups []*requestGroup, err error) error {
	all := true
	for _, g := range groups {
		switch refused := script.Failed(g.Answer.Text); len(refused) {
		case 0:
			all = false
		case g.Request.Numbers:
			g.Err = err
		default:
			g.Err = refusedInPart(refused, err)
		}
	}
	if all {
		return err
	}
	return nil
}

// refusedInPart returns the error of corrections of which Redis has refused some.
func refusedInPart(refused []int, err error) error {
	failures := call.JoinErrors([]error{err, call.ErrPartlySettled})
	if !errors.Is(err, call.ErrNotDone) { // so it is unknown whether these were carried out, too
		return failures
	}
	return &call.PartlySettledError{NotDone: refused, Err: failures}
}
