// Package unexported has functions of package core for the other packages of this module. Programs have no use for them. Package
// core sets them when it is initialized. Its types are any here, because core imports this package.
package unexported

import "time"

// Traits follow from the algorithm of a limit. Places and bans have none of them.
type Traits struct {
	// Delays says that admitted requests wait for their turn.
	Delays bool
	// Windowed says that the limit counts units per window. Others are buckets, which drain or refill evenly.
	Windowed bool
	// Dated says that a calendar cuts the windows, so that the units left have to last until the window ends.
	Dated bool
	// Shares says that the limit is a tenant's share of another one, so that its checks stand behind those of that.
	Shares bool
	// Prepaid says that no wait helps: the units never come back by themselves.
	Prepaid bool
	// Reserves says that a check may reserve units for a time: see core.Check.
	Reserves bool
}

var (
	// TraitsOf returns the traits of a core.Limit, which may be nil.
	TraitsOf func(limit any) Traits

	// AllowAll is core.Limiter.AllowAll in a context.Context for the checks of a *core.Call. The decisions lie in its memory, which is
	// used again.
	AllowAll func(ctx, limiter, call any) error

	// SettleBeside settles a *core.Reservation beside its caller: the settlement is sent at once, and the caller does not wait
	// for the answer. If then is not nil, another goroutine calls it with the error of core.Reservation.Settle; with nothing to
	// send, SettleBeside calls it itself. The Decisions stay as they are. Charges that were certainly not settled are tried again
	// as by core.Reservation.SettleLater. In the memory of this process the settlement is done when SettleBeside returns.
	// core.Limiter.Close waits up to two seconds for settlements that are under way.
	//
	// A call of the limiter that is denied while a settlement gives units back to its key waits for the settlement, and is
	// made again, once. So a client that comes back with the answer in hand finds the units that were given back.
	//
	// The reservation counts as settled at once. Another number of costs than of checks, a negative cost, and a reservation
	// that was settled before are errors that change nothing, and then is not called.
	SettleBeside func(reservation any, then func(error), costs ...int) error

	// Split takes the places of core.Concurrent limits out of a *core.Reservation, and returns them as a *core.Reservation of
	// their own, for work that outlives the settlement of the others. Each of the two reservations is settled by itself, at any
	// time, also while the other one is being settled. Each takes as many costs as before, and ignores those of the other. Split
	// returns a nil *core.Reservation if there are no places. It is called once, before anything is settled. A core.Permit of the
	// reservation stays valid.
	Split func(reservation any) (places any)

	// Waited returns how long core.Limiter.WaitAll has waited for a *core.Reservation, without the latest call to the store.
	Waited func(reservation any) time.Duration

	// PlacesOnly is a core.WaitOption that makes core.Limiter.WaitAll wait for places of core.Concurrent limits alone. A call that
	// another limit denies is denied at once, also while others wait for places before it. core.Limiter.Wait does not heed it. It
	// is for middleware, which reports the waits of its requests itself: core.Trace is not told of them.
	PlacesOnly any
)
