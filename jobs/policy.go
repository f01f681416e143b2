package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Policy is a limit of jobs, and the key that a job counts for.
type Policy[J any] struct {
	// Limit is a [core.Quota], such as core.Leaky, or [core.Places] for jobs at once, such as core.Concurrent(20, 30*time.Second): a job holds its place
	// until its work has returned or panicked. For an even pace, take core.Leaky(1, …): a core.Shaping limit is not valid here, since jobs have turns anyway.
	Limit core.Limit
	// By returns the key of a job: its queue, its kind, or something of its arguments. The policy does not limit a job for which it returns "". The default
	// is one key for all jobs. Two policies with equal limits and the same key are one: name the limits to keep them apart.
	By func(context.Context, J) string
	// Cost returns how many units or places a job takes. The default is 1. A job that costs 0 is not limited, and a negative cost fails the job.
	Cost func(context.Context, J) int
}

// Options say how jobs wait. The zero value is ready to use.
type Options struct {
	// LongestWait is how long a job may wait in its worker. It has to be longer than the queue takes to notice that a job has come back, or the limit is not
	// used up: the default of 5 seconds is, for River and asynq. With less than 0, no job waits in its worker.
	LongestWait time.Duration
	// FailClosed puts jobs back while the store cannot answer, for LongestWait and a random time more. By default they run, without a limit.
	FailClosed bool
	// Observe is called with each error of the store. The default is to ignore it. Many goroutines may call it at once.
	Observe func(error)
}

const defaultWait = 5 * time.Second

// Limits are the limits of the jobs of a queue. They are made by [New], and may be used by many goroutines at once.
type Limits[J any] struct {
	limiter  *core.Limiter
	options  Options
	policies []Policy[J]
}

// New returns the limits of the jobs of a queue: a job has to pass all policies, and is charged by all of them or none. New asks nothing of the store.
// It panics with the reason if the limiter is nil, if there is no policy, or if a limit is not valid, or is a ban or a Shaping limit.
func New[J any](l *core.Limiter, options Options, policies ...Policy[J]) *Limits[J] {
	if l == nil || len(policies) == 0 {
		panic("jobs: the limiter is nil, or there is no policy")
	}
	for i, p := range policies {
		if problem := problemOf(p.Limit); problem != nil {
			panic(fmt.Sprintf("jobs: policy %d: %v", i, problem))
		}
	}
	if options.LongestWait == 0 {
		options.LongestWait = defaultWait
	}
	options.LongestWait = max(0, options.LongestWait)
	if options.Observe == nil {
		options.Observe = func(error) {}
	}
	return &Limits[J]{l, options, policies}
}

// problemOf returns why jobs cannot have a limit, or nil.
func problemOf(limit core.Limit) error {
	if limit == nil {
		return errors.New("there is no limit")
	}
	switch limit.Algorithm() {
	case "ban":
		return errors.New("a ban is no limit of jobs")
	case "shaping":
		return fmt.Errorf("jobs have their turns by themselves: take core.Leaky(1, …) in place of %v", limit)
	}
	return limit.Validate()
}

// checks returns the checks of a job.
func (l *Limits[J]) checks(ctx context.Context, job J) (all []core.Check, err error) {
	for i := range l.policies {
		p := &l.policies[i]
		check := core.Check{Key: "jobs", Limit: p.Limit, Cost: 1}
		if p.By != nil {
			check.Key = p.By(ctx, job)
		}
		if p.Cost != nil {
			check.Cost = p.Cost(ctx, job)
		}
		switch {
		case check.Cost < 0:
			return nil, fmt.Errorf("jobs: policy %d: the cost %d is negative", i, check.Cost)
		case check.Key != "" && check.Cost > 0 && p.Limit != core.Unlimited:
			all = append(all, check)
		}
	}
	return all, nil
}
