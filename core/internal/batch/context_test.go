package batch

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// A batch is sent in time or not at all. Its budget begins when it is sent, and anew if it is sent
// again.
func TestContext(t *testing.T) {
	for name, told := range map[string]bool{"the client reads the deadline": false, "somebody is told": true} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				overdue, heard := 0, new(atomic.Value)
				heard.Store(time.Time{})
				begin := func() *Context {
					overdue = 0
					tell := func() { overdue++ }
					if !told {
						tell = nil
					}
					c := newContext(testBudget, func() time.Time { return heard.Load().(time.Time) }, nil, tell)
					c.begin(testPatience)
					return c
				}
				left := func(c *Context) time.Duration {
					deadline, _ := c.Deadline()
					return time.Until(deadline)
				}
				send := func(c *Context) bool {
					_, err := c.Mark("x").MarshalBinary()
					return err == nil
				}

				c := begin() // that is sent late, and then again
				for range testPatience/testBudget - 1 {
					time.Sleep(testBudget - 1)
					heard.Store(time.Now())
				}
				if left(c) != testBudget || c.Err() != nil || c.Silent() {
					t.Errorf("heard of just now: %v left, %v, silent %t", left(c), c.Err(), c.Silent())
				}
				time.Sleep(testBudget - 1)
				for range 2 {
					if !send(c) || !c.Sent() || left(c) != testBudget {
						t.Errorf("sent %t, with %v left", c.Sent(), left(c))
					}
				}
				time.Sleep(testBudget - 1)
				if c.Err() != nil || c.Elapsed() != testBudget-1 {
					t.Errorf("%v after %v", c.Err(), c.Elapsed())
				}
				c.SendAgain()
				if c.Sent() || left(c) != testBudget {
					t.Errorf("to be sent again: sent %t, with %v left", c.Sent(), left(c))
				}
				time.Sleep(testBudget / 2)
				if !send(c) || left(c) != testBudget {
					t.Errorf("sent again %t, with %v left", c.Sent(), left(c))
				}
				if c.end() {
					t.Error("it may be used again, though its timer has fired and may still look")
				}
				if c = begin(); !send(c) || !c.end() {
					t.Error("it may not be used again, though its timer has not fired")
				}

				c = begin() // that is heard of all the time, and is not sent in time
				heard.Store(time.Now().Add(time.Hour))
				if left(c) != testPatience || c.Silent() {
					t.Errorf("heard of: %v left, silent %t", left(c), c.Silent())
				}
				time.Sleep(testPatience)
				synctest.Wait()
				if c.Err() == nil || send(c) || c.Silent() {
					t.Errorf("%v, silent %t", c.Err(), c.Silent())
				}

				heard.Store(time.Time{})
				c = begin() // that is not sent in time
				time.Sleep(testBudget)
				synctest.Wait()
				if !c.Silent() {
					t.Error("it has not ended for the silence")
				}
				if c.Err() == nil || send(c) || c.Sent() || c.end() || told && overdue != 1 {
					t.Errorf("%v, sent %t, told %d times", c.Err(), c.Sent(), overdue)
				}
				c.SendAgain()
				if send(c) {
					t.Error("sent after all")
				}
				<-c.Done()

				c = begin() // that is not answered in time
				send(c)
				time.Sleep(testBudget)
				synctest.Wait()
				if told && (c.Err() == nil || overdue != 1) || left(c) != 0 {
					t.Errorf("%v, told %d times, with %v left", c.Err(), overdue, left(c))
				}
				c.SendAgain() // the client has got an answer now
				time.Sleep(2 * testPatience)
				synctest.Wait()
				if told && overdue != 1 {
					t.Errorf("told %d times", overdue)
				}
			})
		})
	}
}

// A context whose timer fires in the moment of sending is not used again, since the timer's goroutine
// may still read it. The race detector tells.
func TestContextIsNotUsedAgainWhileItsTimerLooks(t *testing.T) {
	for _, overdue := range []func(){nil, func() {}} {
		c := newContext(time.Hour, nil, nil, overdue)
		for i := range 20_000 {
			const patience = 10 * time.Microsecond
			c.begin(patience)
			for began := time.Now(); time.Since(began) < patience; { // the moment is the point
				runtime.Gosched()
			}
			_, _ = c.Mark("x").MarshalBinary()
			if i%2 == 0 {
				c.SendAgain()
			}
			if !c.end() {
				c = newContext(time.Hour, nil, nil, overdue)
			}
		}
	}
}

// word is a value that makes its text itself.
type word struct{ text string }

func (w *word) MarshalBinary() ([]byte, error) { return []byte(w.text), nil }

// A mark prints as the value that it stands for.
func TestMark(t *testing.T) {
	c := newContext(testBudget, nil, nil, nil)
	c.begin(testPatience)
	defer c.end()
	for value, want := range map[any]string{"at": "at", 5: "5", int64(1 << 60): "1152921504606846976", &word{"a word"}: "a word"} {
		m := c.Mark(value)
		text, err := m.MarshalBinary()
		if m.String() != want || string(text) != want || err != nil {
			t.Errorf("%v is %q and %q, %v", value, m, text, err)
		}
	}
}
