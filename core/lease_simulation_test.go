package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// history is what has passed in a simulation of several processes that lease from one store.
type history struct {
	mu      sync.Mutex
	passed  []time.Time
	windows []time.Time // when the store's windows began
	leased  int
}

func (h *history) pass(leased bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passed = append(h.passed, time.Now())
	if leased {
		h.leased++
	}
}

// excess returns by how much more has passed than the bound, at most. step is how far the store's clock was set forward.
func (h *history) excess(limit core.Quota, over float64, step time.Duration) (worst float64) {
	n, period := float64(limit.Capacity()), limit.Rate().Period.Seconds()
	rate := float64(limit.Rate().Events) / period
	lasts := min(over*n/rate, 1)
	worst = -n
	slices.SortFunc(h.passed, time.Time.Compare)
	level, first := 0.0, 0
	inWindow := make(map[int64]float64)
	for i, at := range h.passed {
		switch limit.Algorithm() {
		case "fixed-window":
			began := int64(0)
			for _, window := range h.windows {
				if !window.After(at) {
					began = max(began, window.UnixMicro())
				}
			}
			inWindow[began]++
			worst = max(worst, inWindow[began]-n)
		case "calendar":
			window := at.UnixMicro() / limit.Rate().Period.Microseconds()
			inWindow[window]++
			worst = max(worst, inWindow[window]-n)
		case "sliding-log":
			for at.Sub(h.passed[first]) >= limit.Rate().Period {
				first++
			}
			worst = max(worst, float64(i-first+1)-n*(1+over))
		case "sliding-window":
			length := limit.Rate().Period.Microseconds()
			current, previous := 0.0, 0.0
			for _, other := range h.passed[:i+1] {
				switch at.UnixMicro()/length - other.UnixMicro()/length {
				case 0:
					current++
				case 1:
					previous++
				}
			}
			weighted := previous * float64(length-at.UnixMicro()%length) / float64(length)
			worst = max(worst, current+weighted-n*(1+over))
		default:
			if i > 0 {
				level = max(0, level-rate*at.Sub(h.passed[i-1]).Seconds())
			}
			level++
			worst = max(worst, level-n-rate*(lasts+step.Seconds()))
		}
	}
	return worst
}

var errLost = errors.New("lost")

// roughLink is the store as one process reaches it: calls are late, lost, or never answered.
type roughLink struct {
	core.Store

	history *history
	limit   core.Quota
	mu      sync.Mutex
	random  *rand.Rand
	rough   atomic.Bool
}

// way returns how long a call takes there and back, and whether it is lost on either way.
func (l *roughLink) way() (there, back time.Duration, lost, unanswered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	some := func() time.Duration {
		if l.random.IntN(10) == 0 {
			return time.Duration(l.random.IntN(400_000)) * time.Microsecond
		}
		return time.Duration(l.random.IntN(900)) * time.Microsecond
	}
	there, back = some(), some()
	if l.rough.Load() {
		lost, unanswered = l.random.IntN(8) == 0, l.random.IntN(8) == 0
	}
	return there, back, lost, unanswered
}

func (l *roughLink) Decide(ctx context.Context, calls []core.Call) (int, error) {
	there, back, lost, unanswered := l.way()
	time.Sleep(there)
	if lost {
		return 0, errLost
	}
	answered, err := l.Store.Decide(ctx, calls)
	d := calls[0].Decisions[0]
	if err == nil && d.Allowed && l.limit.Algorithm() == "fixed-window" {
		l.history.mu.Lock()
		l.history.windows = append(l.history.windows, time.Now().Add(d.ResetAfter-l.limit.Rate().Period))
		l.history.mu.Unlock()
	}
	if unanswered {
		return 0, errLost
	}
	if err == nil && d.Allowed && calls[0].Receipts == nil { // it is no lease, and will be told
		l.history.pass(false)
	}
	time.Sleep(back)
	return answered, err
}

func (l *roughLink) Settle(ctx context.Context, settlements []core.Settlement) error {
	there, back, lost, unanswered := l.way()
	time.Sleep(there)
	if lost {
		return errLost
	}
	err := l.Store.Settle(ctx, settlements)
	time.Sleep(back)
	if unanswered {
		return errLost
	}
	return err
}

func (l *roughLink) Close() error { return nil }

// Several processes lease one key from one store, over a network that is late and loses things, while some of them die and the
// store's clock steps. The bound holds.
func TestLeasesOfSeveralProcesses(t *testing.T) {
	const seeds, over = 6, 0.3
	for _, limit := range []core.Quota{
		core.Leaky(300, core.PerSecond(300)), core.TokenBucket(300, core.PerSecond(300)), core.GCRA(300, core.PerSecond(300)),
		core.FixedWindow(300, time.Second), core.SlidingWindow(300, time.Second), core.SlidingLog(300, time.Second),
		core.Calendar(300, core.Every(time.Second)),
	} {
		t.Run(limit.Algorithm(), func(t *testing.T) {
			leased := 0
			for seed := range uint64(seeds) {
				bubbletest.Run(t, func(t *testing.T) {
					h, step := simulateLeases(t, seed, limit, over)
					leased += h.leased
					if excess := h.excess(limit, over, step); excess > 1e-6 {
						t.Errorf("seed %d: %.3f more than the bound", seed, excess)
					}
				})
			}
			if leased < 500 {
				t.Errorf("%d checks were leased in all: too few to tell", leased)
			}
		})
	}
}

func simulateLeases(t *testing.T, seed uint64, limit core.Quota, over float64) (h *history, step time.Duration) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var ahead atomic.Int64
	var options []core.Option
	if a := limit.Algorithm(); seed%2 == 1 && (a == "leaky" || a == "token-bucket" || a == "gcra") {
		options = append(options, core.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
		step = 150 * time.Millisecond
	}
	store := core.NewMemory(options...)
	h = new(history)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	var working sync.WaitGroup
	var limiters []*core.Limiter
	for number := range 3 {
		link := &roughLink{Store: store, history: h, limit: limit, random: rand.New(rand.NewPCG(seed, uint64(number)+2))}
		link.rough.Store(true)
		l := core.New(core.Lease(link, core.Tolerance{Over: over}))
		limiters = append(limiters, l)
		life, die := context.WithTimeout(ctx, time.Duration(2+random.IntN(6))*time.Second)
		defer die()
		for worker := range 6 {
			own := rand.New(rand.NewPCG(seed, uint64(100+10*number+worker)))
			working.Go(func() {
				for life.Err() == nil {
					if d, err := l.Allow(ctx, "key", limit); err == nil && d.Leased {
						h.pass(true)
					}
					if own.IntN(200) == 0 {
						time.Sleep(time.Duration(own.IntN(500)) * time.Millisecond)
					}
					time.Sleep(time.Duration(own.IntN(20_000)) * time.Microsecond)
				}
			})
		}
	}
	time.Sleep(1500 * time.Millisecond)
	ahead.Store(int64(step))
	time.Sleep(time.Second)
	ahead.Store(int64(step - 100*time.Millisecond))
	working.Wait()
	for _, l := range limiters {
		if err := l.Close(); err != nil {
			t.Error(fmt.Errorf("close: %w", err))
		}
	}
	return h, step
}
