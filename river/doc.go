// Package riverratelimit keeps the jobs of River within limits, for all clients of a fleet at once.
//
//	limits := riverratelimit.New(limiter, riverratelimit.Options{},
//		riverratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(5)).Named("partner"), By: riverratelimit.Args(accountOf)},
//		riverratelimit.Policy{Limit: core.Concurrent(20, 30*time.Second).Named("exports"), By: riverratelimit.Queue},
//	)
//	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Middleware: []rivertype.Middleware{limits}, …})
//
// A job that is over a limit waits in its worker for a few seconds, or is snoozed until it is its turn: that is no attempt, and no error of the job. Jobs that
// are snoozed together come back one after another, at the pace of the limit: see package jobs. A call of package outbound that cannot be made in time
// snoozes its job, too.
//
// The limits are those of the whole fleet, whichever client works a job. Two policies are one where their limits and keys are, as everywhere.
package riverratelimit
