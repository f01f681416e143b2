// Package lease renews the leases of this process, and reports when it can no longer be sure that it holds one.
//
// A store grants a holder something for the length of a lease, counted on the store's own clock. The
// holder begins a [Lease] with the instant at which it sent the request for it. The store can only have
// received the request later, so its lease ends later than one that is counted from that instant. The
// lease is certain until then, less one percent for clocks that run at different speeds.
//
// [Leases] renew the leases of a process, many in one call. A lease is renewed for the first time when a
// third of its length has passed, so a short request causes no renewal. A renewal that is not answered
// is retried until the lease is no longer certain. The lease is lost then, and nothing brings it back.
//
// The clock is Go's monotonic one. It stands still while the machine sleeps, and a goroutine that does
// not run cannot be told anything: a resource that must never see two holders has to check a token that
// grows with every grant.
//
// The package knows neither a store nor limits: the functions of [Config] renew leases.
package lease
