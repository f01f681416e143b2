package background

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errDown   = errors.New("down")
	errClosed = errors.New("closed")
)

// What certainly was not done is tried again until it is done, until its time is up, or until it is of no
// use. Nothing else is tried again.
func TestWorkInTheBackgroundIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		fails time.Duration // for so long
		left  bool          // what fails was certainly not done
		tries int
		lost  int
	}{
		"at once":                    {nil, 0, true, 1, 0},
		"a while":                    {errDown, Longest / 2, true, 11, 0},
		"for too long":               {errDown, time.Hour, true, 22, 1},
		"when it may have been done": {errDown, time.Hour, false, 1, 1},
		"for ever":                   {errClosed, time.Hour, true, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, tries, lost, done := time.Now(), 0, 0, []int(nil)
				w := Work[int]{
					Do: func(items []Item[int]) ([]Item[int], error) {
						tries++
						if c.err != nil && time.Since(start) < c.fails {
							if c.left {
								return items, c.err
							}
							return nil, c.err
						}
						for _, one := range items {
							done = append(done, one.Value)
						}
						return nil, nil
					},
					Final: func(err error) bool { return errors.Is(err, errClosed) },
					Lost:  func(error) { lost++ },
				}
				w.Add()
				w.Add(1, 2, 3)
				w.Drain()
				time.Sleep(Longest)
				synctest.Wait()
				want := "[1 2 3]"
				if c.lost > 0 {
					want = "[]"
				}
				if tries != c.tries || lost != c.lost || fmt.Sprint(done) != want {
					t.Errorf("%d tries, %d losses, done %v, want %d, %d and %s", tries, lost, done, c.tries, c.lost, want)
				}
			})
		})
	}
}

// More than goes into one go is done in several, in its order, and Drain waits for all of it.
func TestWorkInTheBackgroundIsDoneInOrder(t *testing.T) {
	next, largest := 0, 0
	w := Work[int]{Do: func(items []Item[int]) ([]Item[int], error) {
		for _, one := range items {
			if one.Value != next {
				t.Errorf("%d is done, want %d", one.Value, next)
			}
			next++
		}
		largest = max(largest, len(items))
		return nil, nil
	}}
	for i := range 3 * Most {
		w.Add(i)
	}
	w.Drain()
	if next != 3*Most || largest > Most {
		t.Errorf("%d are done, want %d, and %d in one go, want %d at most", next, 3*Most, largest, Most)
	}
}
