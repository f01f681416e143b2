// Package asynqratelimit keeps the tasks of asynq within limits, for all servers of a fleet at once.
//
//	mux.Use(asynqratelimit.New(limiter, asynqratelimit.Options{},
//		asynqratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(5)).Named("partner"), By: asynqratelimit.Payload("ship", accountOf)},
//		asynqratelimit.Policy{Limit: core.Concurrent(20, 30*time.Second).Named("exports"), By: asynqratelimit.Queue},
//	))
//	server := asynq.NewServer(redis, asynqratelimit.Config(asynq.Config{Concurrency: 20}))
//
// A task that is over a limit waits in its worker for a few seconds, or goes back until it is its turn: that is no retry, and no failure. Tasks that go back
// together come back one after another, at the pace of the limit: see package jobs. A call of package outbound that cannot be made in time puts its task back,
// too.
//
// asynq archives each task that ends with an error after its last retry, also if that is no failure. Such a task waits in its worker for as long as
// its limits say, within its timeout. Give tasks that are limited a MaxRetry of 1 or more.
package asynqratelimit
