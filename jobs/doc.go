// Package jobs keeps the jobs of a queue within limits, for all workers of a fleet at once. It is for adapters: those of River and asynq are made of it, and
// one for another queue takes as few lines.
//
//	limits := jobs.New(limiter, jobs.Options{}, jobs.Policy[*Job]{Limit: core.Leaky(1, core.PerSecond(5)).Named("partner"), By: tenantOf})
//	...
//	err := limits.Run(ctx, job, func(ctx context.Context) error { return work(ctx, job) })
//	if later, is := errors.AsType[*jobs.LaterError](err); is {
//		// put the job back, so that it is tried again after later.After, and count no attempt
//	}
//
// A job that the limits admit within [Options].LongestWait waits in its worker. A job that would wait for longer goes back to its queue, with a time of its own
// to come back at: jobs that go back together come back one after another, at the pace of the limit. Jobs that have found no place come
// back at random times within LongestWait, or a second if that is longer.
//
// The policies of a file are about requests of HTTP, and not about jobs. The numbers of limits can stand in a file all the same: policies.Parse reads
// it, and its Document has the Limits by their names.
package jobs
