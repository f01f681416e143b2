// Package batch lets the calls of many goroutines to one server share round trips.
//
// A call that comes alone is sent at once, on its caller's goroutine. Calls that come while as
// many batches are in flight as may be wait in a queue and are sent together in the next batch.
// So a quiet caller never waits for company, and under load a call takes a fraction of a round
// trip. Calls that ask the same and wait together form a group, which is asked once.
//
// A [Lane] is such a queue with its workers. A server has one [Breaker], which its lanes share.
//
// The package knows neither Redis nor limits: [Config] says how a batch is sent.
package batch
