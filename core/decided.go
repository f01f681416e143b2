package core

import (
	"context"
	"time"
)

// Decided is a check that was decided, or one of a call that could not be answered.
type Decided struct {
	// Limit is the limit, and Units how many units the check has asked for, or was granted by [Limiter.AllowAtMost]. A
	// Decided does not name the key.
	Limit Limit
	Units int
	// Mode tells how the units were asked for: [Charge], or a Mode that charges none, as for [Limiter.Peek].
	Mode Mode
	// Shadow says that the check denies nothing.
	Shadow bool
	// Decision is the answer. It is the zero Decision if there is an Err.
	Decision Decision
	// Elapsed is how long the call took, which may have had other checks as well.
	Elapsed time.Duration
	// Err is why the call could not be answered, or nil; see [FailureOf].
	Err error
}

// decidingStore tells a trace of the decisions of a store.
type decidingStore struct {
	Store

	tell func(Decided)
}

func (s *decidingStore) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	began := time.Now()
	answered, err = s.Store.Decide(ctx, calls)
	told := answered
	if err != nil {
		told = len(calls) // none of them has an answer
	}
	elapsed := time.Since(began)
	for i := range calls[:told] {
		c := &calls[i]
		for n := range c.Checks {
			check := &c.Checks[n]
			d := Decided{Limit: check.Limit, Units: check.Units() * max(1, c.Granted), Mode: check.Mode, Shadow: check.Shadow, Elapsed: elapsed, Err: err}
			if err == nil {
				d.Decision = c.Decisions[n]
			}
			s.tell(d)
		}
	}
	return answered, err
}
