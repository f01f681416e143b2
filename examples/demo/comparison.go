package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
)

var errUnchecked = errors.New("the store did not answer: requests were let through unchecked, and are not counted")

// comparison is one pattern of traffic sent to all algorithms at once, each with
// the same numbers. The visitor's lock guards the fields that change.
type comparison struct {
	id      int64
	pattern pattern
	n       int
	window  time.Duration
	started time.Duration // on the page's clock
	length  time.Duration // of the time axis
	stop    context.CancelFunc

	points  []point // in the order in which the answers came
	lanes   []lane
	done    bool
	problem string // why something is missing, or ""
}

// point is one request of a comparison. Times are microseconds from its start.
type point struct {
	Lane     int   `json:"lane"`
	At       int64 `json:"at"`     // when it was decided
	Passed   int64 `json:"passed"` // when it went on to the handler, if admitted
	Status   int   `json:"status"`
	Admitted bool  `json:"admitted"`
	// Unchecked says that there was no decision: the store did not answer, and the request went on.
	Unchecked bool `json:"unchecked"`
}

// lane is the result of one algorithm so far.
type lane struct {
	Algorithm string `json:"algorithm"`
	Admitted  int    `json:"admitted"`
	Refused   int    `json:"refused"`
	Unchecked int    `json:"unchecked"` // let through, as the store did not answer
	// Most is how many passed within one window's length, wherever that was most, and
	// From is when that began.
	Most int   `json:"most"`
	From int64 `json:"from"`

	passed []int64 // in order
	limit  core.Limit
}

// pass takes down a request that went on to the handler at an instant.
func (l *lane) pass(at, window int64) {
	i, _ := slices.BinarySearch(l.passed, at)
	l.passed = slices.Insert(l.passed, i, at)
	// The page's clock runs beside the store's, so that two instants a window apart
	// may look a little closer.
	window -= window / 100
	l.Most, l.From = 0, 0
	first := 0
	for last, end := range l.passed {
		for end-l.passed[first] >= window {
			first++
		}
		if n := last - first + 1; n > l.Most {
			l.Most, l.From = n, l.passed[first]
		}
	}
}

// compare starts a comparison, in place of the one that may be under way.
func (p *page) compare(v *visitor, chosen pattern, n int, window time.Duration, framework string) error {
	switch {
	case n < 1 || n > mostCompared:
		return &fieldError{"capacity", fmt.Sprintf("%d is not from 1 to %d", n, mostCompared)}
	case window < shortestCompared || window > longestCompared:
		return &fieldError{"window", fmt.Sprintf("%v is not from %v to %v", window, shortestCompared, longestCompared)}
	}
	v.Lock()
	defer v.Unlock()
	schedule, err := chosen.schedule(n, window, v.presses)
	if err != nil {
		return &fieldError{"pattern", err.Error()}
	}
	if v.run != nil {
		v.run.stop()
	}
	v.given++
	run := &comparison{
		id: v.given, pattern: chosen, n: n, window: window, started: p.now(),
		length: schedule[len(schedule)-1] + window,
	}
	for _, a := range algorithms {
		limit, err := a.with(n, window)
		if err != nil {
			return err
		}
		run.lanes = append(run.lanes, lane{Algorithm: a.Name, limit: limit})
	}
	ctx, stop := context.WithCancel(v.fresh)
	run.stop = stop
	v.run = run
	p.under.Go(func() {
		defer stop()
		p.follow(ctx, v, run, schedule, framework)
	})
	return nil
}

// follow sends the requests of a schedule, and returns when all are answered.
func (p *page) follow(ctx context.Context, v *visitor, run *comparison, schedule []time.Duration, framework string) {
	var under sync.WaitGroup
	for _, at := range schedule {
		timer := time.NewTimer(run.started + at - p.now())
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			break
		}
		attempts, _, err := p.begin(v, v.cards, 1, run.aim)
		if err != nil {
			v.Lock()
			run.problem = err.Error()
			v.Unlock()
			continue
		}
		for _, a := range attempts {
			under.Go(func() {
				defer p.sent()
				v.conclude(run, a, p.traffic.send(ctx, a, framework, p.now))
			})
		}
	}
	under.Wait()
	v.Lock()
	defer v.Unlock()
	run.done = true
	if ctx.Err() != nil {
		run.problem = "stopped"
	}
}

// aim points an attempt at the run's own limits, under a key of the run's own. The
// visitor is locked.
func (c *comparison) aim(a *attempt) {
	a.limit = c.lanes[c.lane(a.card.Name)].limit
	a.key += ":compare:" + strconv.FormatInt(c.id, 10)
}

func (c *comparison) lane(algorithm string) int {
	return slices.IndexFunc(c.lanes, func(l lane) bool { return l.Algorithm == algorithm })
}

// conclude takes down the answer to an attempt of a comparison.
func (v *visitor) conclude(run *comparison, a *attempt, result answer) {
	v.Lock()
	defer v.Unlock()
	if !v.end(a, &result) {
		return
	}
	at := result.Sent
	if result.Decided {
		at = a.at.Microseconds()
	}
	i := run.lane(a.card.Name)
	made := point{Lane: i, At: max(0, at-run.started.Microseconds()), Status: result.Status}
	made.Passed = made.At
	l := &run.lanes[i]
	switch passed := result.Status == http.StatusOK; {
	case passed && !result.Decided:
		made.Unchecked = true
		l.Unchecked++
		run.problem = errUnchecked.Error()
	case passed:
		made.Admitted = true
		made.Passed += result.Delay
		l.Admitted++
		l.pass(made.Passed, run.window.Microseconds())
	case result.Status == http.StatusTooManyRequests:
		l.Refused++
	default: // neither: the request went wrong, or was given up
		return
	}
	run.points = append(run.points, made)
}
