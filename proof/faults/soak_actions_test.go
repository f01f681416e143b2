package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// ledger is what was told of one state in one phase.
type ledger struct {
	unknown  int  // units that may have been charged, or not given back
	denied   int  // the least that was denied, or 0
	returned bool // something was given back, so that what was denied may fit now
}

// told is a call that was admitted.
type told []core.Check

// states returns what can be asked of a subject, and asks for nothing.
func (s *soak) states(subject int) []core.Check {
	checks := make([]core.Check, 0, 2*len(s.limits))
	for _, limit := range s.limits {
		for _, shadow := range [...]bool{false, true} {
			checks = append(checks, core.Check{Key: fmt.Sprint("subject ", subject), Limit: limit, Shadow: shadow, Mode: core.Look})
		}
	}
	return checks
}

// act does something at random.
func (s *soak) act(limiter *core.Limiter) {
	switch what := rand.N(10); {
	case what < 2 && s.givesBack:
		s.reserve(limiter)
	case what < 3 && s.givesBack:
		s.wait(limiter)
	default:
		s.ask(limiter)
	}
}

// reserve reserves some units, and settles them at another cost. What is lost must have been sent.
func (s *soak) reserve(limiter *core.Limiter) {
	c := s.states(rand.N(subjects))[0]
	c.Limit = s.limits[rand.N(len(s.limits))]
	c.Mode, c.Cost = core.Charge, 1+rand.N(4)
	r, err := limiter.Reserve(context.Background(), c)
	if err != nil || !r.Allowed() {
		var decisions []core.Decision
		if err == nil {
			decisions = r.Decisions()
		}
		s.note([]core.Check{c}, decisions, err)
		return
	}
	runtime.Gosched()
	cost := rand.N(c.Cost + 1)
	err = r.Settle(context.Background(), cost)
	for errors.Is(err, core.ErrNotDone) {
		time.Sleep(rand.N(10 * time.Millisecond)) // and is no wait for anything: it was not sent
		err = r.Settle(context.Background(), cost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled++
	back, l := c.Cost-cost, s.ledger(c)
	l.returned = true
	if c.Cost = cost; cost > 0 {
		s.admitted = append(s.admitted, told{c})
	}
	// A meter may give back less than what was reserved where others have given back meanwhile, and a
	// queue if others stand behind. A key that was reset when the clock was ahead gives nothing back.
	if err != nil || !windowed(c.Limit) || c.Key == s.states(0)[0].Key {
		l.unknown += back
	}
}

// windowed reports whether a limit counts exactly what is given back to it.
func windowed(l core.Limit) bool {
	return strings.HasSuffix(l.Algorithm(), "-window") || l.Algorithm() == "sliding-log"
}

// wait waits for a unit, for a while.
func (s *soak) wait(limiter *core.Limiter) {
	c := s.states(rand.N(subjects))[0]
	c.Limit = s.limits[rand.N(len(s.limits))]
	c.Mode, c.Cost = core.Charge, 1
	ctx, cancel := context.WithTimeout(s.waits, time.Duration(1+rand.N(20))*time.Millisecond)
	defer cancel()
	if rand.N(2) == 0 {
		time.AfterFunc(rand.N(5*time.Millisecond), cancel)
	}
	err := limiter.Wait(ctx, c.Key, c.Limit.(core.Quota))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited++
	if err == nil {
		s.admitted = append(s.admitted, told{c})
		return
	}
	// What was granted to who has left is given back, unless a connection breaks meanwhile.
	l := s.ledger(c)
	l.returned = true
	if _, limited := errors.AsType[*core.LimitedError](err); !limited && mayBeCharged(err) || !windowed(c.Limit) || c.Key == s.states(0)[0].Key {
		l.unknown++
	}
}

// ask asks about some keys at random.
func (s *soak) ask(limiter *core.Limiter) {
	var checks []core.Check
	seen := make(map[core.Check]bool)
	for range 1 + rand.N(3)*rand.N(2) {
		states := s.states(rand.N(subjects))
		c := states[rand.N(len(states))]
		if seen[c] {
			continue
		}
		seen[c] = true
		if c.Cost = rand.N(4); rand.N(50) == 0 {
			c.Cost = rand.N(2 * c.Limit.Capacity())
		}
		if c.Cost > 0 {
			c.Mode = core.Charge
		}
		checks = append(checks, c)
	}
	ctx := context.Background()
	switch what := rand.N(20); {
	case !s.givesBack: // as what is charged for a caller who leaves is
	case what == 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(3*time.Millisecond))
		defer cancel()
	case what == 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(rand.N(3*time.Millisecond), cancel)
	}
	decisions, err := limiter.AllowAll(ctx, checks...)
	s.note(checks, decisions, err)
}

// note enters in the ledgers what was told.
func (s *soak) note(checks []core.Check, decisions []core.Decision, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if err != nil {
		s.failed++
		if mayBeCharged(err) {
			for _, c := range checks {
				s.ledger(c).unknown += c.Cost
			}
		}
		return
	}
	var gated told
	pass := true
	for i, c := range checks {
		switch allowed := decisions[i].Allowed; {
		case !allowed:
			if l := s.ledger(c); l.denied == 0 || c.Cost < l.denied {
				l.denied = c.Cost
			}
			pass = pass && c.Shadow
		case c.Shadow:
			s.admitted = append(s.admitted, told{c})
		}
		if !c.Shadow {
			gated = append(gated, c)
		}
	}
	if pass && len(gated) > 0 {
		s.admitted = append(s.admitted, gated)
		s.passed++
	}
}

func (s *soak) ledger(c core.Check) *ledger {
	c.Cost, c.Mode = 0, core.Look
	if s.ledgers[c] == nil {
		s.ledgers[c] = &ledger{}
	}
	return s.ledgers[c]
}
