package riverratelimit

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/jobs"
)

// Policy is a limit of jobs, and the key that a job counts for: [Queue], [Kind], [Args], or a function of the program's own.
type Policy = jobs.Policy[*rivertype.JobRow]

// Options say how jobs wait. With the default of five seconds in a worker, the limit is used up under every FetchPollInterval of less than that.
type Options = jobs.Options

// New returns middleware for a client or a worker. A job that is over a limit is snoozed, which River counts as no attempt. So is a job that still waits in its
// worker when its context ends, as when the client is stopped. A place of a core.Concurrent limit is held while the job is worked, and given back once, also
// after a panic. New panics as [jobs.New] does.
func New(l *core.Limiter, options Options, policies ...Policy) rivertype.WorkerMiddleware {
	limits := jobs.New(l, options, policies...)
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
		begun := false
		err := limits.Run(ctx, job, func(ctx context.Context) error {
			if ctx.Err() != nil { // it ended as its turn came
				return ctx.Err()
			}
			begun = true
			return doInner(ctx)
		})
		if later, is := errors.AsType[*jobs.LaterError](err); is {
			return river.JobSnooze(later.After)
		}
		if !begun && ctx.Err() != nil {
			return river.JobSnooze(0)
		}
		return err
	})
}

// Queue is the key of the job's queue.
func Queue(_ context.Context, job *rivertype.JobRow) string { return "queue " + job.Queue }

// Kind is the key of the job's kind.
func Kind(_ context.Context, job *rivertype.JobRow) string { return "kind " + job.Kind }

// Args returns a function for the key of jobs with some type of arguments: their kind, and the value that of returns. Jobs of other kinds have no key, so that
// the policy does not limit them. The arguments are decoded as the worker decodes them, from JSON. Jobs that cannot be decoded share a key: River fails them.
func Args[T river.JobArgs](of func(T) string) func(context.Context, *rivertype.JobRow) string {
	return func(ctx context.Context, job *rivertype.JobRow) string {
		var args T
		if T.Kind(args) != job.Kind {
			return ""
		}
		if err := json.Unmarshal(job.EncodedArgs, &args); err != nil {
			return Kind(ctx, job)
		}
		return "kind " + job.Kind + " " + of(args)
	}
}
