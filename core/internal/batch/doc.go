// Package batch lets the calls of many goroutines to one server share round trips.
//
// A call that comes alone is sent at once, on its caller's goroutine. When as many batches are in
// flight as may be, calls wait in a queue and are sent together in the next batch. So a lone call
// never waits for others, and under load a call takes a fraction of a round trip. Calls with the
// same request that wait together form a group, which is sent once.
//
// A [Lane] is such a queue with its workers. A server has one [Breaker], which its lanes share.
//
// The package knows neither Redis nor limits: [Config] says how a batch is sent.
package batch
