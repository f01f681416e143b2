package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// history is what callers and the server have seen of each call, by its number.
type history struct {
	mu    sync.Mutex
	sent  map[int]int // how often it was sent
	heeds bool
}

// asked is a request with a number, so that it can be found again.
type asked struct {
	name   string
	weight int
	number int
}

// Under any mix of faults, every call is answered once and in time. A call that was answered was sent
// exactly once; a call whose error says that it was not sent was not.
func TestAnyCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyCalls) })
}

func anyCalls(t *rapid.T) {
	h := &history{sent: map[int]int{}, heeds: rapid.Bool().Draw(t, "heeds")}
	pool := rapid.IntRange(-1, 3).Draw(t, "connections") // -1: as many as are wanted
	var mu sync.Mutex
	idle, inFlight := pool, 0
	reply := rapid.SampledFrom([]time.Duration{0, time.Millisecond, testBudget - 1, testBudget + time.Millisecond, time.Hour})
	dial := rapid.SampledFrom([]time.Duration{0, testBudget, testPatience - 1, testPatience + testBudget, 5 * testPatience})
	outcome := rapid.SampledFrom([]error{nil, nil, nil, nil, errDown, errFault})
	// What the server does is drawn in advance, so that it does not depend on how goroutines run.
	type turn struct {
		reply, dial time.Duration
		err         error
	}
	turns := make([]turn, 200)
	for i := range turns {
		turns[i] = turn{reply.Draw(t, "reply"), dial.Draw(t, "dial"), outcome.Draw(t, "outcome")}
	}
	next := func() turn {
		mu.Lock()
		defer mu.Unlock()
		one := turns[0]
		turns = append(turns[1:], one)
		return one
	}
	sleep := func(ctx context.Context, heeds bool, d time.Duration) error {
		if !heeds {
			time.Sleep(d)
			return nil
		}
		deadline, _ := ctx.Deadline()
		if left := time.Until(deadline); left < d {
			time.Sleep(left)
			return context.DeadlineExceeded
		}
		time.Sleep(d)
		return nil
	}
	config := Config[asked, int]{
		Send: func(ctx *Context, batch []*Group[asked, int]) error {
			one := next()
			mu.Lock()
			inFlight++
			if inFlight > 3 && h.heeds {
				t.Errorf("%d batches are in flight, want at most 3", inFlight)
			}
			cold := idle == 0
			if idle > 0 {
				idle--
			}
			mu.Unlock()
			weight := 0
			for _, g := range batch {
				weight += g.Request.weight
			}
			if weight > testFull && len(batch) > 1 {
				t.Errorf("%d groups of weight %d in a batch", len(batch), weight)
			}
			err := error(nil)
			if cold {
				err = sleep(ctx, h.heeds, one.dial)
			}
			if err == nil {
				_, err = ctx.Mark("x").MarshalBinary()
			}
			if err == nil {
				h.note(batch)
				if err = sleep(ctx, h.heeds, one.reply); err == nil {
					err = one.err
				}
			}
			mu.Lock()
			inFlight--
			if err == nil && pool >= 0 {
				idle = min(idle+1, 3)
			}
			mu.Unlock()
			for i, g := range batch {
				g.Answer, g.Err = i+1, err
				if err != nil && !ctx.Sent() {
					g.Err = fmt.Errorf("%w: %w", errUnsent, err)
				}
			}
			return err
		},
		Fail: func(ctx *Context, err error) error {
			if ctx == nil || !ctx.Sent() {
				return fmt.Errorf("%w: %w", errUnsent, err)
			}
			return err
		},
		Outcome: func(err error) Outcome {
			if errors.Is(err, errFault) || errors.Is(err, ErrClosed) {
				return Unknown
			}
			return Failed
		},
		Weight: func(q *asked, _ int) int { return q.weight },
		Hash: func(q *asked) uint64 {
			if q.name == "" {
				return 0
			}
			return uint64(q.name[0]) % 2 // so that some meet
		},
		Same:   func(a, b *asked) bool { return a.name == b.name },
		Budget: testBudget, Patience: testPatience, InFlight: rapid.IntRange(1, 3).Draw(t, "in flight"), Full: testFull,
		MostWaiting: 30, Heeds: h.heeds, ConnectTimeout: 3 * testPatience,
		Ready: func(others int) bool {
			mu.Lock()
			defer mu.Unlock()
			return idle < 0 || idle > others
		},
		Connect: func(ctx context.Context) error {
			one := next()
			if err := sleep(ctx, true, one.dial); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if one.err == nil {
				idle = min(idle+1, 3)
			}
			return one.err
		},
		Breaker: NewBreaker(rapid.IntRange(0, 3).Draw(t, "failures"), testBudget, func(State) {}),
	}
	if pool < 0 && rapid.Bool().Draw(t, "no connections are counted") {
		config.Ready, config.Connect = nil, nil
	}
	lane := New(config)
	var group sync.WaitGroup
	ask := func(number int, ctx context.Context, q asked) {
		began := time.Now()
		c := lane.NewCall()
		c.Request = q
		err := lane.Do(ctx, c)
		took := time.Since(began)
		most := testPatience + 2*testBudget // in the queue, for a connection, and for the answer
		if deadline, ok := ctx.Deadline(); ok && deadline.Sub(began) < testBudget {
			most = max(0, deadline.Sub(began))
		}
		if took > most {
			t.Errorf("call %d was answered after %v, want at most %v", number, took, most)
		}
		if errors.Is(err, ErrLeft) {
			if ctx.Err() == nil {
				t.Errorf("call %d: %v, and the context has not ended", number, err)
			}
			lane.Wait(c)
			if waited := time.Since(began); waited > testPatience+2*testBudget {
				t.Errorf("call %d, whose caller has left, was answered after %v", number, waited)
			}
		}
		if err == nil || errors.Is(err, ErrLeft) {
			err = c.Err
		}
		h.mu.Lock()
		sent := h.sent[number]
		h.mu.Unlock()
		switch {
		case err == nil && sent != 1, sent > 1, errors.Is(err, errUnsent) && sent > 0:
			t.Errorf("call %d was sent %d times: %v", number, sent, err)
		case err == nil && c.Answer == 0:
			t.Errorf("call %d has no answer", number)
		}
		lane.Free(c)
	}
	number := 0
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			number++
			q := asked{rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "name"), rapid.IntRange(1, testFull+1).Draw(t, "weight"), number}
			if q.name != "" {
				q.weight = 1 // that of those who ask the same is the same
			}
			ctx, cancel := context.Background(), func() {}
			if rapid.Bool().Draw(t, "bounded") {
				d := rapid.SampledFrom([]time.Duration{0, time.Millisecond, testBudget, testBudget + 1, testPatience}).Draw(t, "deadline")
				ctx, cancel = context.WithTimeout(ctx, d)
			}
			group.Go(func() {
				defer cancel()
				ask(q.number, ctx, q)
			})
		},
		"": func(*rapid.T) { synctest.Wait() },
		"time passes": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{1, time.Millisecond, testBudget / 2, testBudget, testPatience}).Draw(t, "time"))
		},
	})
	if rapid.Bool().Draw(t, "closed at once") {
		lane.Close()
		if err := lane.Do(context.Background(), lane.NewCall()); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrSuspended) {
			t.Errorf("after Close: %v", err)
		}
	}
	group.Wait()
	time.Sleep(2 * time.Hour) // what a client that ignores deadlines still has of it
	synctest.Wait()
	if waiting, inFlight := lane.Load(); waiting != 0 || inFlight != 0 {
		t.Errorf("%d wait and %d are in flight in the end", waiting, inFlight)
	}
	lane.Close()
}

var errUnsent = errors.New("not sent")

// note notes that a batch was sent.
func (h *history) note(batch []*Group[asked, int]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range batch {
		n := 0
		for c := g.first; c != nil; c = c.next {
			h.sent[c.Request.number]++
			if c.Place != n || c.Request.name != g.Request.name {
				h.sent[c.Request.number] += 1000 // which no caller expects
			}
			n++
		}
		if n != g.Len {
			h.sent[g.Request.number] += 1000
		}
	}
}
