package guard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// SettlePolicy corrects the cost of a request that has been served. [Policy].Cost is then an estimate that is reserved.
type SettlePolicy struct {
	// Cost returns the real cost of a request that has been served. It is given the request as the handler was, and the
	// result. The difference is given back or charged in one call for all policies
	// of the request, into the window that was charged: see [core.Reservation.Settle].
	// The handler tells by [Spend] the units that only it can count.
	// Less than 0 counts as 0. The default leaves the estimate charged.
	//
	// It is called exactly once when the handler has run, also when that has panicked,
	// streamed, or lost its client. Where the handler has taken the connection over, it is
	// called when the handler returns, even if the connection stays open. It is not called
	// for requests that this middleware has denied or has let through unchecked. If the
	// handler leaves an error or a panic for others to answer, it is called when that answer
	// begins, or at the latest when the request ends. In the latter case it runs on another
	// goroutine, the body is closed, and of the framework's own context only the route is
	// known.
	//
	// A response that is not flushed leaves the server after it has been settled, one round
	// trip later if the cost has changed. A settlement that has certainly not reached the store
	// is tried again in the background for two seconds: see [core.Reservation.SettleLater].
	// A reservation stays charged if its process dies, unless there is a ReserveFor.
	//
	// Two policies of a request with one limit and one key are one limit, which is charged
	// once: the greater [Policy].Cost is reserved, and the greater real cost is charged. A
	// policy that settles nothing counts with its [Policy].Cost. The same holds for a policy further
	// inside if a middleware in front has charged its limit. It gives nothing back there,
	// and if its cost is greater, the rest is charged when the request has been served. A
	// Shadow in front is charged the rest only if it settles.
	//
	// Reserve at least 1: a request with a [Policy].Cost of 0 is never denied, even if it is charged
	// afterwards.
	//
	// The response does not wait for the settlement, which is sent before the response ends: see First. [core.Limiter.Close]
	// waits for settlements in flight.
	//
	// It is not called for a [core.Concurrent] limit: all its places are given back.
	Cost func(*http.Request, Served) int

	// First has the response end only when the request is settled, a round trip later if the cost has changed. Set it
	// if all processes have to count the real cost once the client has its answer, or if
	// Options.Observe reads the units left then. The default is not to wait. A request that strikes or forgives is always settled
	// first, with all its policies. It needs Cost: without one it is an error of [New].
	First bool

	// ReserveFor is for how long the [Policy].Cost of a request is reserved, and each addition of [Grow]. If this process dies, it is
	// given back then: [core.Check.ReserveFor] says how. It is right for tokens per minute, and wrong for money, which is
	// spent all the same. It has to be longer than the longest request: one that is settled later is charged its
	// whole real cost, as of then, and the log says so.
	//
	// The default is 0, which leaves it charged. Any other time has to be from a millisecond to a day. It needs Cost. It is
	// an error of [New] with a [core.Concurrent] limit, which has a lease, a [core.Shaping] one, or a [core.Calendar] one, where
	// units stay paid. For such a limit that [Policy].LimitFor picks it means nothing.
	// Of policies that are one limit the longest counts, and 0 is the longest.
	ReserveFor time.Duration
}

// check returns the reason why it makes no sense under a limit of some kind, if it does not. The limit is not known if LimitFor chooses it.
func (s *SettlePolicy) check(limit core.Limit, kind limitKind) error {
	switch {
	case s.ReserveFor != 0 && (s.ReserveFor < time.Millisecond || s.ReserveFor > 24*time.Hour):
		return fmt.Errorf("a Settle.ReserveFor of %v is not from 1ms to 24h", s.ReserveFor)
	case s.ReserveFor > 0 && s.Cost == nil:
		return fmt.Errorf("Settle.ReserveFor is %v, but nothing is settled: set Settle.Cost, or leave ReserveFor out", s.ReserveFor)
	case s.First && s.Cost == nil:
		return errors.New("Settle.First is set, but nothing is settled: set Settle.Cost, or leave First out")
	case s.ReserveFor > 0 && limit.Validate() == nil && !kind.Reserves:
		return fmt.Errorf("Settle.ReserveFor is %v, which does not suit %s: leave ReserveFor out", s.ReserveFor, limit)
	}
	return nil
}

// Served is the result of a request that was let through. [SettlePolicy.Cost] decides by it.
type Served struct {
	// Status is the status of the response: 200 if none was set, 499 if none was set and the client has gone, and 101 if the
	// handler has taken the connection over. If a limiter further inside has denied a remote procedure call, it is the
	// Status of that [Denial], which the call's protocol may have as 200. If Unanswered is set, no response was seen: it
	// is then the status of the error, or 500.
	Status int
	// Bytes is how much of the response's body the handler has written, whether the
	// client has read it or not. It counts neither the traffic of a connection that was
	// taken over nor an answer that others write to an error of the handler.
	Bytes int64
	// Cost is the number of units that the policy has reserved: return it if that was right.
	Cost int
	// Spent is the sum that [Spend] was told for the request, by the handler or by others, until it
	// is settled. The default is 0.
	Spent int
	// Panicked says that the handler has panicked, or has called [runtime.Goexit], which
	// goes on after this.
	Panicked bool
	// Hijacked says that the handler has taken the connection over.
	Hijacked bool
	// ClientGone says that the client had gone when the response began, or before the handler returned without one: the
	// context of the request was cancelled, and not by a deadline. A proxy
	// may tell that with 502. A policy that gives units back by such a status is free for clients that hang up when the work is
	// done. [BanPolicy].Forgive is not called then.
	ClientGone bool
	// Unanswered says that the handler has left an error or a panic behind without an
	// answer, and no answer was seen before the request ended. The client may
	// have got an empty 200, a broken connection, or the answer of a middleware that went
	// around the limiter.
	Unanswered bool
}
