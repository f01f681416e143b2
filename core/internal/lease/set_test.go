package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
)

// store grants what it is asked for, and remembers what it was asked.
type store struct {
	mu       sync.Mutex
	wants    []int
	most     int // of one grant; 0 is as many as are wanted
	none     bool
	err      error
	takes    time.Duration
	window   time.Duration
	returned []lease.Unspent
	ended    []lease.Ended
}

func (s *store) set(over float64) *lease.Set {
	return lease.NewSet(lease.Config{
		Over: over,
		Ask: func(_ context.Context, _ string, _ *exact.Spec, _ *lease.Terms, want int) (lease.Asked, error) {
			time.Sleep(s.takes)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wants = append(s.wants, want)
			switch {
			case s.err != nil:
				return lease.Asked{Units: want}, s.err
			case s.none:
				return lease.Asked{}, nil
			case s.most > 0:
				want = min(want, s.most)
			}
			return lease.Asked{Units: want, Remaining: 100, Next: time.Second, Reset: s.window, Receipt: len(s.wants)}, nil
		},
		Return: func(_ context.Context, list []lease.Unspent) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.returned = append(s.returned, list...)
			return s.err
		},
		Tell: func(e lease.Ended) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = append(s.ended, e)
		},
	})
}

var thousand = specOf(exact.Leaky, 1000, 1000, time.Second) // at 0.1, grants of up to 100 last 100 ms

// heat makes a key hot.
func heat(set *lease.Set, key string, spec *exact.Spec) {
	for range 8 {
		set.Admitted(lease.Wanted{Key: key, Spec: spec, Units: 1})
	}
	synctest.Wait()
}

func spend(set *lease.Set, key string, spec *exact.Spec, units int) bool {
	_, ok := set.Spend(key, spec, units)
	synctest.Wait()
	return ok
}

// inBubble runs a test with a clock of its own, and closes the set.
func inBubble(t *testing.T, s *store, over float64, test func(t *testing.T, set *lease.Set)) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		set := s.set(over)
		test(t, set)
		set.Close()
		for _, e := range s.ended {
			if e.Granted != e.Spent+e.Returned+e.Lapsed {
				t.Errorf("%+v does not add up", e)
			}
		}
		if set.Keys() != 0 {
			t.Errorf("%d keys after Close", set.Keys())
		}
	})
}

func TestOnlyHotKeysAreGranted(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		for range 50 { // 7 in the time of a grant
			for range 7 {
				set.Admitted(lease.Wanted{Key: "key", Spec: thousand, Units: 1})
			}
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if len(s.wants) > 0 || set.Keys() > 0 {
			t.Errorf("a key that is not hot was granted %v", s.wants)
		}
		heat(set, "key", thousand)
		if !spend(set, "key", thousand, 1) || spend(set, "other", thousand, 1) || spend(set, "key", specOf(exact.GCRA, 1000, 1000, time.Second), 1) {
			t.Error("want the hot key granted, and no other")
		}
	})
}

// A grant may be spent until it lapses, one percent before its time, counted from when it was asked for.
func TestGrantLapses(t *testing.T) {
	for _, c := range []struct {
		name          string
		spec          *exact.Spec
		takes, window time.Duration
		want          time.Duration // from the reply
	}{
		{"at once", thousand, 0, 0, 99 * time.Millisecond},
		{"slowly answered", thousand, 60 * time.Millisecond, 0, 39 * time.Millisecond},
		{"with its window", specOf(exact.FixedWindow, 1000, 1000, time.Second), 10 * time.Millisecond, 50 * time.Millisecond, 39500 * time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{takes: c.takes, window: c.window}
			inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
				heat(set, "key", c.spec)
				time.Sleep(c.takes)
				synctest.Wait()
				time.Sleep(c.want - time.Nanosecond)
				if _, ok := set.Spend("key", c.spec, 1); !ok {
					t.Error("lapsed too early")
				}
				time.Sleep(time.Nanosecond)
				if _, ok := set.Spend("key", c.spec, 1); ok {
					t.Error("spent too late")
				}
				synctest.Wait()
				if len(s.returned) != 1 || s.returned[0].Units != 8 || s.returned[0].Spent != 1 || s.returned[0].Receipt != 1 {
					t.Errorf("returned %+v", s.returned)
				}
			})
		})
	}
}

func TestGrantThatComesTooLateIsReturned(t *testing.T) {
	s := &store{takes: 100 * time.Millisecond}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		time.Sleep(100 * time.Millisecond)
		if spend(set, "key", thousand, 1) {
			t.Error("spent a grant that came too late")
		}
		if len(s.returned) != 1 || s.returned[0].Spent != 0 {
			t.Errorf("returned %+v", s.returned)
		}
	})
}

// A process asks twice in the time of a grant for what it needs, and no more than flows through the limit.
func TestGrantsAreSizedByTheKeysRate(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		for range 2000 { // 800 in a second
			spend(set, "key", thousand, 1)
			time.Sleep(1250 * time.Microsecond)
		}
		if last := s.wants[len(s.wants)-1]; last < 38 || last > 42 {
			t.Errorf("%d are wanted at once, want 40: %v", last, s.wants)
		}
		if calls := len(s.wants) + len(s.returned); calls > 2*25+6 {
			t.Errorf("%d calls in 25 grants' time", calls)
		}
		for range 1000 { // 10,000 in a second
			spend(set, "key", thousand, 1)
			time.Sleep(100 * time.Microsecond)
		}
		if most := slices.Max(s.wants); most <= 50 || most > 100 {
			t.Errorf("%d are wanted at once, want 100 less what is left", most)
		}
	})
}

// However many are wanted, a process never has more that are granted and not spent than flow through the limit while a grant lasts,
// and so admits no more of them late.
func TestNoMoreIsGrantedThanIsTolerated(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		for range 500 { // far more than the limit admits
			for range 10 {
				spend(set, "key", thousand, 7)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.wants) < 10 || slices.Max(s.wants[1:]) < 50 {
			t.Errorf("wanted %v: too little to tell", s.wants)
		}
		for _, e := range s.ended {
			if e.Late > 100 {
				t.Errorf("%+v: want at most 100 late", e)
			}
		}
	})
}

// Where there is nothing to grant, the store is asked again after half of a grant's time, and not before.
func TestNothingIsAskedForInAPause(t *testing.T) {
	for name, s := range map[string]*store{"none": {none: true}, "less": {most: 3}, "failing": {err: errors.New("down")}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
				heat(set, "key", thousand)
				for range 100 {
					if spend(set, "key", thousand, 1) && s.most == 0 {
						t.Fatal("spent what was not granted")
					}
					time.Sleep(time.Millisecond)
				}
				if len(s.wants) > 3 {
					t.Errorf("asked %d times in the time of one grant", len(s.wants))
				}
				if len(s.wants) < 2 {
					t.Errorf("asked %d times in the time of one grant: want it tried again", len(s.wants))
				}
			})
		})
	}
}

// A call that costs more than what is left takes the rest of the next grant.
func TestRestIsSpentTogetherWithTheNextGrant(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		for range 400 {
			spend(set, "key", thousand, 3)
			time.Sleep(4 * time.Millisecond)
		}
		if len(s.returned) > 3 { // until the key's rate is known
			t.Errorf("returned %+v", s.returned)
		}
	})
}

func TestGrantsEnd(t *testing.T) {
	identity := exact.NewSpec(exact.Params{Algorithm: exact.Leaky, Name: "plan"}, nil)
	named := func(capacity int) *exact.Spec {
		return exact.NewSpec(exact.Params{Algorithm: exact.Leaky, Name: "plan", Capacity: capacity, Events: 1000, Period: time.Second}, identity)
	}
	for name, end := range map[string]func(set *lease.Set){
		"other numbers": func(set *lease.Set) { set.Renumber("key", named(2000)) },
		"a reset":       func(set *lease.Set) { set.End("key", named(3000)) },
		"Close":         func(set *lease.Set) { set.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{}
			inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
				spec := named(1000)
				heat(set, "key", spec)
				heat(set, "other", spec)
				if set.Renumber("key", spec); !spend(set, "key", spec, 1) {
					t.Fatal("nothing is granted")
				}
				s.takes = 20 * time.Millisecond
				for range 5 { // and more is asked for
					time.Sleep(time.Millisecond)
					spend(set, "key", spec, 1)
				}
				end(set)
				if spend(set, "key", spec, 1) || name != "Close" && !spend(set, "other", spec, 1) {
					t.Error("want the grants of the key ended, and no others")
				}
				time.Sleep(20 * time.Millisecond)
				if spend(set, "key", spec, 1) {
					t.Error("spent what was asked for before")
				}
				synctest.Wait()
				var returned []int
				for _, u := range s.returned {
					if u.Key == "key" {
						returned = append(returned, u.Units-u.Spent)
					}
				}
				if !slices.Equal(returned, []int{2, 66}) {
					t.Errorf("returned %v, want what was left and what was asked for meanwhile", returned)
				}
			})
		})
	}
}

// What cannot be returned has lapsed.
func TestWhatCannotBeReturnedLapses(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		spend(set, "key", thousand, 2)
		s.mu.Lock()
		s.err = errors.New("down")
		s.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.ended) != 1 || s.ended[0].Lapsed != 6 || s.ended[0].Spent != 2 || s.ended[0].Late != 2 {
			t.Errorf("%+v", s.ended)
		}
		if set.Keys() != 0 {
			t.Errorf("%d keys that nobody asks for", set.Keys())
		}
	})
}
