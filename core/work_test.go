package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core/internal/call"
)

var errDown = errors.New("down")

// numbered returns settlements with a number each, which is their only cost.
func numbered(numbers ...int) []laterSettlement {
	list := make([]laterSettlement, len(numbers))
	for i, n := range numbers {
		list[i].costs = []int{n}
	}
	return list
}

func numberOf(one laterSettlement) int { return one.costs[0] }

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
		"a while":                    {errDown, longestWork / 2, true, 11, 0},
		"for too long":               {errDown, time.Hour, true, 22, 3},
		"when it may have been done": {errDown, time.Hour, false, 1, 3},
		"for ever":                   {call.ErrClosed, time.Hour, true, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				start, tries, lost, done := time.Now(), 0, 0, []int(nil)
				w := work{
					settle: func(items []laterSettlement) ([]laterSettlement, int, error) {
						tries++
						if c.err != nil && time.Since(start) < c.fails {
							if c.left {
								return items, 0, c.err
							}
							return nil, len(items), c.err
						}
						for _, one := range items {
							done = append(done, numberOf(one))
						}
						return nil, 0, nil
					},
					lost: func(certain, unknown int, _ error) { lost += certain + unknown },
				}
				w.add()
				w.add(numbered(1, 2, 3)...)
				time.Sleep(2 * longestWork)
				w.drain()
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

// newWork returns work that settles as a test wants it.
func newWork(do func(items []laterSettlement) ([]laterSettlement, int, error), lost func(lost, unknown int, err error)) *work {
	return &work{settle: do, lost: lost}
}

// What is added together is done in one go, in its order, and what does not fit into one in several.
func TestWorkInTheBackgroundIsDoneInOrder(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var mu sync.Mutex
		done := make(map[int]bool)
		w := newWork(func(items []laterSettlement) ([]laterSettlement, int, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(items) > mostAtOnce {
				t.Errorf("%d are done in one go, want %d at most", len(items), mostAtOnce)
			}
			for i, one := range items {
				n := numberOf(one)
				if n%10 > 0 && (i == 0 || numberOf(items[i-1]) != n-1) {
					t.Errorf("%d is not done behind the one before", n)
				}
				done[n] = true
			}
			return nil, 0, nil
		}, nil)
		const lists = 300
		for i := range lists {
			var list []int
			for n := range 10 {
				list = append(list, 10*i+n)
			}
			if !w.add(numbered(list...)...) {
				t.Fatal("there is no room")
			}
		}
		w.drain()
		if len(done) != 10*lists {
			t.Errorf("%d are done, want %d", len(done), 10*lists)
		}
		var all []int
		w.settle = func(items []laterSettlement) ([]laterSettlement, int, error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, len(items))
			return nil, 0, nil
		}
		w.add(make([]laterSettlement, 2*mostAtOnce+1)...)
		w.drain()
		slices.Sort(all)
		if !slices.Equal(all, []int{1, mostAtOnce, mostAtOnce}) {
			t.Errorf("goes of %v, want that they are as large as may be", all)
		}
	})
}

// Goes are carried out at once while there is enough for them, so that a distant store does not hold them up.
func TestWorkInTheBackgroundIsDoneAtOnce(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		const trip, goes = 40 * time.Millisecond, 4 * goesAtOnce
		began := time.Now()
		w := newWork(func([]laterSettlement) ([]laterSettlement, int, error) {
			time.Sleep(trip)
			return nil, 0, nil
		}, nil)
		for i := range goes * mostAtOnce {
			w.add(numbered(i)...)
		}
		w.drain()
		if took, most := time.Since(began), (goes/goesAtOnce+2)*trip; took > most {
			t.Errorf("%d goes took %v, want %v at most", goes, took, most)
		}
	})
}

// What was never tried is not given up: each item has its own time from its own first try. In an outage one go after the
// other tries.
func TestWorkInTheBackgroundThatWasNeverTriedIsKept(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		start, down := time.Now(), 3*longestWork
		var mu sync.Mutex
		atOnce, most, done, given := 0, 0, 0, 0
		w := newWork(func(items []laterSettlement) ([]laterSettlement, int, error) {
			mu.Lock()
			atOnce++
			most = max(most, atOnce)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			atOnce--
			if time.Since(start) < down {
				return items, 0, errDown
			}
			done += len(items)
			return nil, 0, nil
		}, func(lost, _ int, err error) {
			if !errors.Is(err, errDown) {
				t.Error(err)
			}
			given += lost
		})
		const all = 100 * mostAtOnce
		for i := range all {
			w.add(numbered(i)...)
		}
		time.Sleep(2*longestWork - workPause)
		synctest.Wait()
		mu.Lock()
		most = 0
		mu.Unlock()
		time.Sleep(longestWork)
		synctest.Wait()
		mu.Lock()
		if most != 1 {
			t.Errorf("%d goes try at once in an outage, want 1", most)
		}
		mu.Unlock()
		time.Sleep(5 * longestWork)
		w.drain()
		if most := (1 + goesAtOnce) * mostAtOnce; given == 0 || given > most || done+given != all {
			t.Errorf("%d are given up and %d done of %d, want at most %d that were tried for their time", given, done, all, most)
		}
	})
}

// There is room for so many, and for no more. What Drain has no time for is given up.
func TestWorkInTheBackgroundIsBounded(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var mu sync.Mutex
		down, lost := true, 0
		w := newWork(func(items []laterSettlement) ([]laterSettlement, int, error) {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return items, 0, errDown
			}
			return nil, 0, nil
		}, func(n, _ int, _ error) {
			mu.Lock()
			defer mu.Unlock()
			lost += n
		})
		w.add(numbered(0)...)
		synctest.Wait() // it fails
		for i := range workRoom - 1 {
			if !w.add(numbered(i)...) {
				t.Fatalf("there is no room for %d", i)
			}
		}
		if w.add(numbered(1)...) {
			t.Error("there is room for one more")
		}
		w.drain()
		synctest.Wait()
		mu.Lock()
		if lost != workRoom {
			t.Errorf("%d are lost, want all %d", lost, workRoom)
		}
		down = false
		mu.Unlock()
		time.Sleep(workPause)
		if !w.add(numbered(1)...) {
			t.Error("there is no room again")
		}
		w.drain()
		time.Sleep(workPause)
	})
}
