package simulation_test

import (
	"context"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// lease is how long places are held without being renewed.
const lease = 5 * time.Second

// rate is a limit that some calls have beside their places.
var rate = core.Leaky(3, core.PerSecond(1)).Named("rate")

func placesOf(n int) core.Places { return core.Concurrent(n, lease).Named("places") }

func isPlace(limit core.Limit) bool { return limit.Name() == "places" }

// process is a limiter with its work, and its link to the store.
type process struct {
	number  int
	limiter *core.Limiter
	link    *link
}

func newProcess(number int, ledger *ledger) *process {
	p := &process{number: number}
	p.link = &link{process: p, ledger: ledger}
	p.limiter = core.New(p.link)
	return p
}

// lives reports whether a process can do something now.
func (p *process) lives() bool {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return !p.link.dead && !p.link.closed && p.link.paused == nil
}

// calmSince reports whether a process lives, and nothing has happened to its calls after an instant.
func (p *process) calmSince(at time.Time) bool {
	if !p.lives() {
		return false
	}
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return !p.link.rough.After(at)
}

// pause stops a process, and lets it go on if it pauses.
func (p *process) pause() {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	if p.link.paused == nil {
		p.link.paused = make(chan struct{})
		return
	}
	close(p.link.paused)
	p.link.paused, p.link.rough = nil, time.Now()
}

func (p *process) kill() {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	p.link.dead = true
}

func (p *process) setFates(fates []fate) {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	p.link.fates = fates
}

// The states of a work.
const (
	waits = iota
	holds
	over
)

// work is what needs places. The lock of the world guards what changes.
type work struct {
	process *process
	key     string
	limit   core.Places
	cost    int
	rated   bool // its call has a rate, too
	waits   bool // it waits for its places, otherwise it tries
	longest time.Duration
	cancel  context.CancelFunc
	began   time.Time

	state       int
	left        bool // its context was ended
	permit      *core.Permit
	reservation *core.Reservation
}

// line returns the line in which the work waits in its process.
func (w *work) line() line { return line{w.process, w.key, w.limit, w.cost} }

// drawWork draws what a process is to do.
func drawWork(t *rapid.T, p *process, n int) *work {
	return &work{
		process: p, limit: placesOf(n),
		key:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
		cost:    rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "places"),
		rated:   rapid.IntRange(0, 4).Draw(t, "rated") == 4,
		waits:   rapid.IntRange(0, 3).Draw(t, "waits") < 3,
		longest: rapid.SampledFrom([]time.Duration{0, 0, time.Second, 20 * time.Second}).Draw(t, "longest"),
	}
}

// acquire takes the places.
func (w *work) acquire(ctx context.Context) (*core.Permit, *core.Reservation, error) {
	var options []core.WaitOption
	switch {
	case !w.waits:
		options = append(options, core.WithLongestWait(0))
	case w.longest > 0:
		options = append(options, core.WithLongestWait(w.longest))
	}
	if w.cost == 1 && !w.rated {
		permit, err := w.process.limiter.Acquire(ctx, w.key, w.limit, options...)
		return permit, nil, err
	}
	checks := []core.Check{{Key: w.key, Limit: w.limit, Cost: w.cost}}
	if w.rated {
		checks = []core.Check{{Key: w.key, Limit: rate}, checks[0]}
	}
	r, err := w.process.limiter.WaitAll(ctx, checks, options...)
	if err != nil {
		return nil, nil, err
	}
	return r.Permit(ctx), r, nil
}

// giveBack gives the places back, in one of several ways, as often as it takes.
func (w *work) giveBack(permit *core.Permit, reservation *core.Reservation, way int) error {
	if reservation == nil || way == 0 {
		permit.Release()
		permit.Release()
		return nil
	}
	costs := make([]int, len(reservation.Decisions()))
	if way == 1 {
		return reservation.SettleLater(costs...)
	}
	defer permit.Release() // which changes nothing
	for range 10 {
		err := reservation.Settle(context.Background(), costs...)
		if !errors.Is(err, core.ErrNotDone) {
			if core.FailureOf(err) == "other" {
				return err
			}
			return nil
		}
		time.Sleep(budget / 10)
	}
	return nil
}
