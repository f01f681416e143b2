// Package queue says who waits, in which order, and until when.
//
// [Queues] hold waiters until their requests are granted, first come, first served. Each key has a
// queue of its own, with a worker that asks for as many waiters at once as it can. Between two answers
// it rests until the instant at which the next grant is possible, or until a [Queues.Wake]. [Turns] hold waiters whose turns are granted but not due yet. When
// one leaves, those behind move up.
//
// One key's queue never slows another one down. A waiter that leaves costs O(log n). The package knows
// neither Redis nor limits: [Config] says how requests are made.
package queue
