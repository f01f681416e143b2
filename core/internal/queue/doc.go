// Package queue keeps waiters in order, and ends their waits.
//
// [Queues] hold waiters until their requests are granted, first come, first served. Each key has a queue of its own, with
// a worker that asks for as many waiters at once as it can. Between two answers it rests until the instant at which the
// next grant is possible, or until a [Queues.Wake]. [Turns] hold waiters with turns that are granted but not due yet.
// When one leaves, those behind move up.
//
// One key's queue never slows another one down. A waiter that leaves costs O(log n). The package knows neither Redis nor
// limits: the functions of [Config] make the requests.
package queue
