package wait

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// order is a [Rank] that notes when the queue stands in it, and leaves it.
type order struct {
	start  time.Time
	stood  []time.Duration
	left   []time.Duration
	others []Other
	silent bool
}

func (o *order) Stand(Request, time.Time, time.Time, int) (others []Other, told bool) {
	o.stood = append(o.stood, time.Since(o.start))
	if o.silent {
		return nil, false
	}
	return o.others, true
}

func (o *order) Leave() { o.left = append(o.left, time.Since(o.start)) }

// ranked returns queues in an order, with a function that answers the requests.
func (o *order) ranked(ask func(Request) Answer) *Queues {
	o.start = time.Now()
	return NewQueues(QueueConfig{
		Ask:    func(_ context.Context, requests []Request) Answer { return ask(requests[0]) },
		Return: func([]Grant) {},
		Takes:  func(*Request) time.Duration { return time.Second },
		GaveUp: func(ctx context.Context) error { return ctx.Err() },
		Most:   1,
		Rank:   func(QueueKey) Rank { return o },
	})
}

// A waiter that is held back leaves the order, and stands in it again shortly before that ends, to know the others when it asks. It is not
// in the order when it looks in between, also behind older ones.
func TestWaiterThatIsHeldBackStandsAgainBeforeItAsks(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		o := &order{}
		o.others = []Other{{Came: time.Now().Add(-time.Minute), Units: 1}}
		asked := 0
		var older Older
		queues := o.ranked(func(r Request) Answer {
			asked++
			if until := o.start.Add(3 * time.Second); time.Now().Before(until) {
				return Answer{Latest: &denied{}, Next: until.Add(time.Hour), Again: until, Held: until} // older ones are served first
			}
			older = r.Older
			return Answer{Grants: []Grant{&unit{cost: 1}}, Latest: &denied{}}
		})
		if _, err := queues.Wait(t.Context(), want(1), time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // it lingers, since there are others
		for _, at := range o.stood {
			if at < 2900*time.Millisecond {
				t.Errorf("it stood in the order after %v", at)
			}
		}
		if len(o.stood) == 0 || o.stood[0] != 2900*time.Millisecond || older.Units != 1 || !older.Far || asked < 4 {
			t.Errorf("it stood after %v, and asked %d times, at last behind %+v", o.stood, asked, older)
		}
	})
}

// A waiter that looks in vain, since the store has failed, sleeps on.
func TestWaiterThatLooksInVainSleepsOn(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		o := &order{}
		failed := 0
		queues := o.ranked(func(Request) Answer {
			switch since := time.Since(o.start); {
			case since > 5*time.Second:
				return Answer{Grants: []Grant{&unit{cost: 1}}, Latest: &denied{}}
			case since > 0:
				failed++
				return Answer{Err: errors.New("no store")}
			}
			return Answer{Latest: &denied{}, Next: o.start.Add(time.Hour)}
		})
		if _, err := queues.Wait(t.Context(), want(1), time.Time{}); err != nil || failed == 0 {
			t.Errorf("%v after %d looks that have failed", err, failed)
		}
		time.Sleep(time.Second)
		o = &order{}
		queues = o.ranked(func(Request) Answer {
			if time.Since(o.start) >= 10*time.Second {
				return Answer{Err: errors.New("no store")}
			}
			return Answer{Latest: &denied{}, Next: o.start.Add(10 * time.Second)}
		})
		if _, err := queues.Wait(t.Context(), want(1), time.Time{}); err == nil {
			t.Error("the request that was due has failed, and its waiter was not told")
		}
	})
}

// A waiter leaves room for the older ones that it knows while the store tells of none.
func TestOlderWaitersAreKnownWhileTheStoreIsSilent(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		o := &order{others: []Other{{Came: time.Now().Add(-time.Minute), Units: 2}}}
		var last Older
		queues := o.ranked(func(r Request) Answer {
			o.silent = len(o.stood) > 0
			if last = r.Older; time.Since(o.start) > 3*time.Second {
				return Answer{Grants: []Grant{&unit{cost: 1}}, Latest: &denied{}}
			}
			return Answer{Latest: &denied{}, Next: o.start.Add(time.Hour)}
		})
		if _, err := queues.Wait(t.Context(), want(1), time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if len(o.stood) < 3 || last.Units != 2 {
			t.Errorf("it stood %d times, at last behind %+v", len(o.stood), last)
		}
	})
}

// The units of the older waiters are added up, and those of the oldest one are known.
func TestOlderThan(t *testing.T) {
	now := time.Now()
	others := []Other{{now.Add(-time.Millisecond), 2}, {now.Add(-time.Second), 5}, {now.Add(time.Second), 7}}
	if got := OlderThan(now, others); got != (Older{Units: 7, First: 5, Far: true}) {
		t.Errorf("%+v", got)
	}
	if got := OlderThan(now, others[:1]); got != (Older{Units: 2, First: 2}) {
		t.Errorf("%+v", got)
	}
}
