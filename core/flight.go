package core

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultFlights    = 2
	defaultMaxWaiting = 16_384
	// fullFlight is how many checks travel together at most: what Redis decides in
	// about half a millisecond, during which it does nothing else.
	fullFlight = 128
	// patience is how long a pilot waits for the next flight before it ends.
	patience = 100 * time.Millisecond
)

// flights takes questions to one server and brings the answers back. A lone
// question leaves at once. Those that arrive while as many flights as may be are in
// the air wait, and leave together with the next one. So under load, questions share
// round trips, and nobody ever waits for company.
type flights struct {
	// fly answers every request of a batch. It returns an error if the server has not
	// answered, and words to be used again.
	fly        func(ctx context.Context, batch []*request, words []any) ([]any, error)
	server     string     // the address, if it is known
	traced     func(Call) // told of each flight, unless it is nil
	breaker    *breaker
	budget     time.Duration
	most       int  // flights in the air
	maxWaiting int  // requests that wait
	heeded     bool // a flight ends with its budget: the client sees to that
	requests   sync.Pool
	wanted     atomic.Bool // somebody has asked since the last sweep; see Redis.sweep

	left    atomic.Int64 // requests that wait without a caller
	mu      sync.Mutex
	waiting []*request
	inAir   int
	healthy bool // the last flight was answered
	spare   []*flight
	resting []*pilot
	pilots  int
	closed  bool
	ended   chan struct{} // closed when the last flight has landed after close
}

// flight is what a flight needs, to be used again.
type flight struct {
	ctx   *budgetContext
	batch []*request
	words []any
}

// pilot is a goroutine that takes one flight after the other. It begins when
// somebody has to wait, and ends when nobody has for a while.
type pilot struct {
	call chan struct{} // there is a flight to take
}

// request is a question on its way to a server, in the words of a script call.
type request struct {
	keys      []any
	arguments []any
	of        set
	numbers   int  // expected in the reply
	weight    int  // in checks
	instant   bool // the instant of the decision is wanted

	// who says whether the request is still the caller's (waiting), or the flight's
	// until it is answered (boarded), or nobody's (left).
	who      atomic.Int32
	answered chan struct{}
	patience *time.Timer

	reply string
	at    int64
	err   error
}

const (
	waiting int32 = iota
	boarded
	left
)

// newRequest returns a request to fill in and ask. It has to be freed, unless ask has
// returned an error.
func (f *flights) newRequest() *request {
	if r, ok := f.requests.Get().(*request); ok {
		return r
	}
	r := &request{answered: make(chan struct{}, 1), patience: time.NewTimer(time.Hour)}
	r.patience.Stop()
	return r
}

// free gives a request back that no flight has any more.
func (f *flights) free(r *request) {
	clear(r.keys)
	clear(r.arguments)
	*r = request{
		keys: r.keys[:0], arguments: r.arguments[:0],
		answered: r.answered, patience: r.patience,
	}
	f.requests.Put(r)
}

// ask has a request answered, and returns an error if it cannot be or if the caller
// cannot wait any longer: ctx has ended, or the budget is used up. Without an error,
// the request is the caller's again.
func (f *flights) ask(ctx context.Context, r *request) error {
	if f.breaker.refuses() {
		return errSuspended
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errClosed
	}
	if len(f.waiting) == 0 && f.inAir < f.most && f.healthy && f.outlasts(ctx) {
		f.inAir++
		t := f.ready()
		f.mu.Unlock()
		f.takeAlone(t, r) //nolint:contextcheck // a flight has a context of its own: it ends with the budget
		return nil
	}
	if len(f.waiting) >= f.maxWaiting && !f.dismiss() {
		f.mu.Unlock()
		return failed(Overloaded, "core: %d questions wait for redis already", f.maxWaiting)
	}
	f.waiting = append(f.waiting, r)
	f.dispatch() //nolint:contextcheck // as above
	f.mu.Unlock()
	return f.await(ctx, r)
}

// outlasts reports whether a caller can take a flight: it will not be kept from
// leaving. That a caller goes away meanwhile is noticed after the flight, which is
// short as long as the server is healthy.
func (f *flights) outlasts(ctx context.Context) bool {
	if !f.heeded {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > f.budget
}

// takeAlone takes a lone request to the server on the caller's goroutine: to wake
// another one would cost as much as a third of the round trip.
func (f *flights) takeAlone(t *flight, r *request) {
	r.who.Store(boarded)
	t.batch = append(t.batch, r)
	_, err := f.take(t)
	<-r.answered
	f.mu.Lock()
	f.land(t, err)
	f.dispatch()
	f.mu.Unlock()
}

// dismiss drops requests whose callers have left, and reports whether there were
// any. f is locked.
func (f *flights) dismiss() bool {
	if f.left.Load() == 0 {
		return false
	}
	before := len(f.waiting)
	f.waiting = slices.DeleteFunc(f.waiting, func(r *request) bool { return r.who.Load() == left })
	f.left.Add(int64(len(f.waiting) - before))
	return len(f.waiting) < before
}

// await returns when a request has been answered, or its caller cannot wait any
// longer. A request that has not boarded by then never will.
func (f *flights) await(ctx context.Context, r *request) error {
	r.patience.Reset(f.budget)
	defer r.patience.Stop()
	var err error
	select {
	case <-r.answered:
		return nil
	case <-ctx.Done():
		err = failed(GivenUp, "core: the question was given up: %w", context.Cause(ctx))
	case <-r.patience.C:
		err = failed(TimedOut, "core: redis has not answered within %v: %w", f.budget, context.DeadlineExceeded)
	}
	select {
	case <-r.answered: // in the same moment
		return nil
	default:
		if r.who.CompareAndSwap(waiting, left) {
			f.left.Add(1)
		}
		return err
	}
}

// dispatch calls a pilot if there is a flight to take. f is locked.
func (f *flights) dispatch() {
	if len(f.waiting) == 0 || f.inAir >= f.most {
		return
	}
	f.inAir++ // what the pilot is called for
	if last := len(f.resting) - 1; last >= 0 {
		f.resting[last].call <- struct{}{}
		f.resting = f.resting[:last]
		return
	}
	f.pilots++
	go f.work(&pilot{call: make(chan struct{}, 1)})
}

// work takes the flight that a pilot was called for, and further ones until there
// has been nothing to do for a while.
func (f *flights) work(p *pilot) {
	rest := time.NewTimer(patience)
	defer rest.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if lost := f.takeAll(); lost {
			return // another has been counted in
		}
		if f.closed {
			break
		}
		f.resting = append(f.resting, p)
		f.mu.Unlock()
		rest.Reset(patience)
		called := true
		select {
		case <-p.call:
		case <-rest.C:
			called = false
		}
		f.mu.Lock()
		if called {
			continue
		}
		if place := slices.Index(f.resting, p); place >= 0 {
			f.resting = slices.Delete(f.resting, place, place+1)
			break
		}
		<-p.call // in the same moment
	}
	f.pilots--
}

// takeAll takes one flight after the other while somebody waits, and ends with one
// flight less in the air. f is locked, and unlocked meanwhile. If a flight was
// overdue, it has been counted out before.
func (f *flights) takeAll() (lost bool) {
	for {
		t := f.ready()
		f.board(t)
		if len(t.batch) == 0 {
			f.land(t, nil)
			return false
		}
		f.mu.Unlock()
		var err error
		lost, err = f.take(t)
		f.mu.Lock()
		if lost {
			return true
		}
		f.land(t, err)
		if len(f.waiting) == 0 {
			return false
		}
		f.inAir++
	}
}

// ready returns what a flight needs. f is locked.
func (f *flights) ready() *flight {
	if last := len(f.spare) - 1; last >= 0 {
		t := f.spare[last]
		f.spare = f.spare[:last]
		return t
	}
	return new(flight)
}

// board has the requests that wait board a flight, as many as may. f is locked.
func (f *flights) board(t *flight) {
	weight, taken := 0, 0
	for _, r := range f.waiting {
		if weight > 0 && weight+r.weight > fullFlight {
			break
		}
		taken++
		if r.who.CompareAndSwap(waiting, boarded) {
			t.batch, weight = append(t.batch, r), weight+r.weight
		} else {
			f.left.Add(-1)
		}
	}
	f.waiting = slices.Delete(f.waiting, 0, taken)
}

// take takes a flight, unless the breaker has none. Where the client may ignore that
// the time is up, a flight that is overdue is lost: another pilot takes the next one,
// and this one ends when the client lets go.
func (f *flights) take(t *flight) (lost bool, err error) {
	done := f.breaker.begin()
	if done == nil {
		return false, deliver(t.batch, "", errSuspended)
	}
	if f.heeded {
		err = f.within(t)
		done(err)
		return false, err
	}
	watch := time.AfterFunc(f.budget, func() {
		done(failed(TimedOut, "core: redis has not answered within %v", f.budget))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pilots--
		f.leave()
		f.dispatch()
	})
	err = f.within(t)
	if !watch.Stop() {
		return true, err
	}
	done(err)
	return false, err
}

// within takes a flight within the budget.
func (f *flights) within(t *flight) (err error) {
	if t.ctx == nil {
		t.ctx = newBudgetContext()
	}
	call := Call{Server: f.server, Questions: len(t.batch)}
	for _, r := range t.batch {
		call.Checks += len(r.keys)
	}
	flown := false
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
			t.ctx = nil
			if !flown {
				_ = deliver(t.batch, "", err)
			}
		}
	}()
	t.ctx.begin(f.budget)
	words, err := f.fly(t.ctx, t.batch, t.words)
	flown = true
	if f.traced != nil {
		call.Elapsed, call.Err = t.ctx.elapsed(f.budget), err
		f.traced(call)
	}
	if !t.ctx.end() {
		t.ctx = nil
	}
	clear(words)
	t.words = words[:0]
	return err
}

// land counts a flight out, and keeps what it needed for the next one. f is locked.
func (f *flights) land(t *flight, err error) {
	if len(t.batch) > 0 {
		f.healthy = err == nil
	}
	clear(t.batch)
	t.batch = t.batch[:0]
	f.spare = append(f.spare, t)
	f.leave()
}

// leave counts a flight out. f is locked.
func (f *flights) leave() {
	f.inAir--
	if f.closed && f.inAir == 0 && len(f.waiting) == 0 {
		close(f.ended)
	}
}

// idle reports whether nobody waits and nothing is in the air.
func (f *flights) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inAir == 0 && len(f.waiting) == 0
}

// close has what waits taken, and returns when all has been answered, or the
// budget is used up. Nothing can be asked any more.
func (f *flights) close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		for _, p := range f.resting { // to find that there is no flight to take
			f.inAir++
			p.call <- struct{}{}
		}
		f.resting = nil
		if f.inAir == 0 {
			close(f.ended)
		}
	}
	f.mu.Unlock()
	patience := time.NewTimer(f.budget)
	defer patience.Stop()
	select {
	case <-f.ended:
	case <-patience.C:
	}
}
