package wait

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// However leases begin and end, and whatever the store answers, and when: a lease is certain until 99 percent of its
// length have passed since its last successful request was sent, and not for longer. It is renewed as soon as it is
// due, if a place is free, and never after it is over. Each loss is told once, at once, and the first End is the only
// first. In the end no goroutine is left.
func TestAnyLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyLeases) })
}

// leaseHolder is a lease as the model sees it. Times count from the beginning of the test.
type leaseHolder struct {
	lease  *Lease
	ctx    context.Context //nolint:containedctx // the lease's
	length time.Duration

	began    time.Duration
	sent     time.Duration // when the last request for it was sent that succeeded
	due      time.Duration // when it is to be renewed; not before it is known
	inFlight bool
	over     error
	overAt   time.Duration
	ended    bool
	told     int
}

// until returns when the lease is not certain any more.
func (h *leaseHolder) until() time.Duration { return h.sent + h.length*99/100 }

func (h *leaseHolder) end(at time.Duration, reason error) {
	if h.over == nil {
		h.over, h.overAt = reason, at
	}
}

// fate is what becomes of one Renew.
type fate struct {
	takes   time.Duration
	answers [3]Renewal // of the first leases, the next ones, and so on
	heeds   bool       // it returns when its context ends
	err     error
	panics  bool
}

// model is what has to be true of the leases.
type model struct {
	t        *rapid.T
	leases   *Leases
	start    time.Time
	fraction float64 // what Leases draw at random
	calm     bool    // the store answers soon, and renews everything

	mu       sync.Mutex
	holders  []*leaseHolder
	fates    []fate
	inFlight int
	full     time.Duration // when all places were last in flight
	closed   bool
}

func anyLeases(t *rapid.T) {
	m := newModel(t)
	defer func() { // also after a failure, so that the bubble can end
		m.leases.Close()
		time.Sleep(time.Hour)
	}()
	lengths := rapid.SampledFrom([]time.Duration{30 * time.Second, 3 * time.Second, 45 * time.Second})
	steps := rapid.SampledFrom([]time.Duration{
		0, 1, time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, 5 * time.Minute,
	})
	t.Repeat(map[string]func(*rapid.T){
		"begin": func(t *rapid.T) {
			length := lengths.Draw(t, "length")
			late := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, length / 3, length*99/100 - 1, length}).Draw(t, "reply took")
			for range rapid.SampledFrom([]int{1, 1, 5}).Draw(t, "crowd") {
				m.begin(length, late)
			}
		},
		"end": func(t *rapid.T) {
			if len(m.holders) > 0 {
				m.end(rapid.IntRange(0, len(m.holders)-1).Draw(t, "who"))
			}
		},
		"time passes": func(t *rapid.T) { time.Sleep(steps.Draw(t, "time")) },
		"next event": func(t *rapid.T) {
			if len(m.holders) == 0 {
				return
			}
			renewal, deadline := m.events(rapid.IntRange(0, len(m.holders)-1).Draw(t, "whose"))
			at := rapid.SampledFrom([]time.Duration{renewal, deadline}).Draw(t, "event")
			time.Sleep(at + rapid.SampledFrom([]time.Duration{-1, 0, 1}).Draw(t, "around") - m.now())
		},
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
				m.close()
			}
		},
		"": func(*rapid.T) {
			synctest.Wait()
			m.check()
		},
	})
	if rapid.Bool().Draw(t, "closed at once") {
		m.close()
	}
	for i := range m.holders {
		m.end(i)
	}
	synctest.Wait()
	m.check()
	time.Sleep(time.Hour)
	synctest.Wait()
	m.check()
	if l := m.leases; l.running != 0 || l.inFlight != 0 || l.Len() != 0 || l.renewals.Len() != 0 || l.alarm != never {
		t.Errorf("%d goroutines, %d renewals and %d leases are left", l.running, l.inFlight, l.Len())
	}
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, start: time.Now(), full: -1, fates: make([]fate, 100)}
	m.calm = rapid.Bool().Draw(t, "calm")
	m.fraction = rapid.SampledFrom([]float64{0, 0.25, 0.5}).Draw(t, "fraction")
	takes := []time.Duration{0, time.Millisecond}
	answers, errs := []Renewal{Held}, []error{nil}
	if !m.calm {
		takes = append(takes, 10*time.Millisecond, time.Second, 10*time.Second, 29700*time.Millisecond, 5*time.Minute)
		answers, errs = append(answers, Held, Held, Unanswered, NotHeld), append(errs, errLeaseDown)
	}
	answer := rapid.SampledFrom(answers)
	for i := range m.fates { // drawn in advance, so that it does not depend on how goroutines run
		m.fates[i] = fate{
			takes:   rapid.SampledFrom(takes).Draw(t, "takes"),
			answers: [3]Renewal{answer.Draw(t, "answer"), answer.Draw(t, "answer"), answer.Draw(t, "answer")},
			heeds:   rapid.Bool().Draw(t, "heeds"),
			err:     rapid.SampledFrom(errs).Draw(t, "error"),
			panics:  !m.calm && rapid.IntRange(0, 5).Draw(t, "panics") == 0,
		}
	}
	m.leases = NewLeases(LeasesConfig{
		Renew:    m.renew,
		Most:     rapid.SampledFrom([]int{1, 3, 128}).Draw(t, "most"),
		InFlight: rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "in flight"),
		Lost:     m.lost,
	})
	m.leases.random = func() float64 { return m.fraction }
	return m
}

func (m *model) now() time.Duration { return time.Since(m.start) }

// expire ends what is not certain any more. m is locked.
func (m *model) expire() {
	for _, h := range m.holders {
		if h.over == nil && h.until() <= m.now() {
			h.end(max(h.until(), h.began), ErrExpired)
			if m.calm && h.until() > h.began+time.Second {
				m.t.Errorf("a lease of %v was lost, though the store renews everything", h.length)
			}
		}
	}
}

func (m *model) begin(length, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &leaseHolder{length: length, began: m.now(), sent: m.now() - late}
	h.due = max(m.now(), h.sent+length/3-time.Duration(m.fraction*float64(length/30)))
	if m.closed {
		h.end(m.now(), ErrClosed)
	}
	m.holders = append(m.holders, h)
	h.lease = m.leases.Begin(&Place{Units: len(m.holders) - 1}, length, time.Now().Add(-late))
	h.ctx = h.lease.Context(context.Background())
}

// events returns when a lease is due and when it is lost, as far as is known.
func (m *model) events(i int) (renewal, deadline time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders[i].due, m.holders[i].until()
}

func (m *model) end(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	h := m.holders[i]
	if first := h.lease.End(); first == h.ended {
		m.t.Errorf("End is the first: %v, and it was called before: %v", first, h.ended)
	}
	h.ended = true
	h.end(m.now(), context.Canceled)
}

func (m *model) close() {
	m.mu.Lock()
	m.expire()
	for _, h := range m.holders {
		h.end(m.now(), ErrClosed)
	}
	m.closed = true
	m.mu.Unlock()
	began := m.now()
	m.leases.Close()
	if took := m.now() - began; took > longestClose {
		m.t.Errorf("Close took %v", took)
	}
}

// renew is the store.
func (m *model) renew(ctx context.Context, places []*Place, answers []Renewal) error {
	values := numbers(places)
	fate, sent := m.send(values)
	if fate.heeds {
		select {
		case <-ctx.Done():
		case <-time.After(fate.takes):
		}
	} else {
		time.Sleep(fate.takes)
	}
	m.reply(fate, sent, values, answers)
	if fate.panics {
		panic("renew")
	}
	return fate.err
}

// send notes that a batch is in flight.
func (m *model) send(values []int) (fate, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	m.inFlight++
	if m.inFlight > m.leases.InFlight || len(values) == 0 || len(values) > m.leases.Most || m.closed {
		m.t.Errorf("%d leases are renewed in one of %d batches, closed: %v", len(values), m.inFlight, m.closed)
	}
	for _, value := range values {
		h := m.holders[value]
		switch {
		case h.over != nil:
			m.t.Errorf("lease %d is renewed: %v", value, h.over)
		case h.inFlight:
			m.t.Errorf("lease %d is renewed twice at once", value)
		case m.now() < h.due:
			m.t.Errorf("lease %d is renewed %v too soon", value, h.due-m.now())
		case m.now() > h.due && m.full != m.now():
			m.t.Errorf("lease %d is renewed %v late, though a place was free", value, m.now()-h.due)
		}
		h.inFlight = true
	}
	next := m.fates[0]
	m.fates = append(m.fates[1:], next)
	return next, m.now()
}

// reply sets the answers to a batch, and notes what follows from them.
func (m *model) reply(fate fate, sent time.Duration, values []int, answers []Renewal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if m.inFlight == m.leases.InFlight {
		m.full = m.now()
	}
	m.inFlight--
	for i, value := range values {
		h := m.holders[value]
		h.inFlight = false
		answers[i] = fate.answers[i%len(fate.answers)]
		known := answers[i]
		if fate.panics {
			known = Unanswered
		}
		switch {
		case h.over != nil:
		case known == Held:
			h.sent, h.due = sent, max(m.now(), sent+h.length/3)
		case known == NotHeld:
			h.end(m.now(), ErrNotHeld)
		default:
			least := max(h.length/30, 10*time.Millisecond)
			h.due = m.now() + least + time.Duration(m.fraction*float64(least/2))
		}
	}
}

// lost is the hook.
func (m *model) lost(p *Place, reason error) {
	value := p.Units
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	h := m.holders[value]
	h.told++
	if !errors.Is(h.over, reason) || h.overAt != m.now() {
		m.t.Errorf("lease %d is told to be lost: %v; and it is over since %v: %v", value, reason, m.now()-h.overAt, h.over)
	}
	if value%2 == 0 {
		panic("lost")
	}
}

// check compares the leases with the model, when nothing more happens at this time.
func (m *model) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	for i, h := range m.holders {
		if err := h.lease.Err(); !errors.Is(err, h.over) {
			m.t.Errorf("lease %d: %v, want %v", i, err, h.over)
		}
		if err := context.Cause(h.ctx); !errors.Is(err, h.over) {
			m.t.Errorf("the context of lease %d: %v, want %v", i, err, h.over)
		}
		told := 0
		if errors.Is(h.over, ErrExpired) || errors.Is(h.over, ErrNotHeld) {
			told = 1
		}
		if h.told != told {
			m.t.Errorf("lease %d was told %d times to be lost, want %d", i, h.told, told)
		}
		if h.over == nil && !h.inFlight && h.due <= m.now() && m.inFlight < m.leases.InFlight {
			m.t.Errorf("lease %d has been due for %v, and a place is free", i, m.now()-h.due)
		}
	}
}
