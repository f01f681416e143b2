// Package wait has the calls of a process that wait, and the places that it holds.
//
// [Queues] are for calls of Wait, for one limit. They hold waiters until their requests are granted, first come, first
// served. Each key has a queue of its own, with a worker that asks for as many waiters at once as it can. Between two
// answers it rests until the instant at which the next grant is possible, or until a [Queues.Wake]. [Turns] hold
// waiters with turns that are granted but not due yet. When one leaves, those behind move up. One key's queue never
// slows another one down. A waiter that leaves costs O(log n).
//
// [Lines] are for calls of WaitAll, for several limits at once. They order the calls that wait for units or places that
// others give back. Waiters for the same [Class] stand in a line: first come, first served. Lines do not hold each
// other up, with one exception: a waiter that has been overtaken for its [Patience] blocks others. A call stands in the
// lines of the classes that have denied it, and in no others. A waiter makes its call on its own goroutine when its
// turn has come, and reports the answer. Lines have no goroutine.
//
// [Places] know which places of concurrent limits this process holds. They renew their leases, report lost ones, give
// forgotten places back, and see that no place is given back twice.
//
// [Leases] renew the leases of those places, many in one call. A store grants a holder something for the length of a lease,
// counted on the store's own clock. The holder begins a [Lease] with the instant at which it sent the request for it. The
// store can only have received the request later, so its lease ends later than one that is counted from that instant. The
// lease is certain until then, less one percent for clocks that run at different speeds. A lease is renewed for the first
// time when a third of its length has passed, so a short request causes no renewal. A renewal that is not answered is
// retried until the lease is no longer certain. The lease is lost then, and nothing brings it back. The clock is Go's
// monotonic one. It stands still while the machine sleeps, and a goroutine that does not run cannot be told anything: a
// resource that must never see two holders has to check a token that grows with every grant.
//
// The package knows no store and makes no calls: the functions of each Config do.
package wait
