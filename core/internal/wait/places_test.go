package wait

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

const placeLength = 30 * time.Second

var placeLimit = exact.NewSpec(exact.Params{Algorithm: exact.Concurrent, Capacity: 5, Events: 5, Period: placeLength}, nil)

// toldOfPlaces is one call of the hook for places.
type toldOfPlaces struct {
	of, units int
	elapsed   time.Duration
	lost      error
}

// placeStore is what renews places and gives them back, as a test wants it. How many places there are is their number.
type placeStore struct {
	*Places

	renew func(numbers []int, answers []Renewal) error // nil: all are held

	mu        sync.Mutex
	log       bytes.Buffer
	renewed   []int
	givenBack []int
	lost      []int
	told      []toldOfPlaces
}

func newPlaceStore() *placeStore {
	s := new(placeStore)
	s.Places = NewPlaces(PlacesConfig{
		Renew: func(_ context.Context, list []*Place, answers []Renewal) error {
			numbers := make([]int, len(list))
			for i, p := range list {
				numbers[i], answers[i] = p.Units, Held
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.renewed = append(s.renewed, numbers...)
			if s.renew != nil {
				return s.renew(numbers, answers)
			}
			return nil
		},
		GiveBack: func(p *Place) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.givenBack = append(s.givenBack, p.Units)
		},
		Held: func(p *Place, units int, elapsed time.Duration, lost error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, toldOfPlaces{p.Units, units, elapsed, lost})
			panic("a hook")
		},
		Lost: func(p *Place) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lost = append(s.lost, p.Units)
		},
		Renewed: func(RenewalReport) { panic("a hook") },
		Logger:  func() *slog.Logger { return slog.New(slog.NewTextHandler(&s.log, nil)) },
	})
	return s
}

// hold takes some places, each with its number.
func (s *placeStore) hold(numbers ...int) *Hold {
	h := s.Hold()
	for _, number := range numbers {
		h.Add(&Place{Spec: placeLimit, Units: number, Shadow: number < 0}, time.Now(), time.Now()) // a shadow's number is below 0
	}
	h.Begin()
	return h
}

func inPlaceBubble(t *testing.T, test func(t *testing.T, s *placeStore)) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		s := newPlaceStore()
		defer s.Close()
		test(t, s)
	})
}

// A lease counts from when it was asked for, and the hold time from the answer.
func TestLeaseCountsFromTheRequest(t *testing.T) {
	inPlaceBubble(t, func(t *testing.T, s *placeStore) {
		s.renew = func(_ []int, answers []Renewal) error {
			clear(answers)
			return errors.New("down")
		}
		asked := time.Now()
		time.Sleep(time.Second)
		h := s.Hold()
		h.Add(&Place{Spec: placeLimit, Units: 1}, asked, time.Now())
		h.Begin()
		ctx := h.Context(t.Context())
		time.Sleep(placeLength - placeLength/100 - time.Second - 1)
		if ctx.Err() != nil || h.Err() != nil {
			t.Errorf("it is over too soon: %v, %v", ctx.Err(), h.Err())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrExpired) || !errors.Is(h.Err(), ErrExpired) || !slices.Equal(s.lost, []int{1}) {
			t.Errorf("it is over for %v and %v, lost are %v", context.Cause(ctx), h.Err(), s.lost)
		}
		h.End()
		if want := (toldOfPlaces{1, -1, placeLength - placeLength/100 - time.Second, ErrExpired}); len(s.told) != 2 || s.told[1] != want {
			t.Errorf("told %v, want %v", s.told, want)
		}
		if median, known := s.Times.Median(placeLimit); !known || median != s.told[1].elapsed {
			t.Errorf("the median is %v, %v", median, known)
		}
		if text := s.log.String(); strings.Count(text, "lost before it was given back") != 1 {
			t.Errorf("logged %s", text)
		}
	})
}

// What has ended is not renewed, is told once, and nobody is told of a shadow. A Hold that is nil has nothing to end.
func TestEndIsOnce(t *testing.T) {
	inPlaceBubble(t, func(t *testing.T, s *placeStore) {
		h := s.hold(2, -1, 3)
		ctx := h.Context(t.Context())
		time.Sleep(time.Second)
		h.End()
		h.End()
		(*Hold)(nil).End()
		if want := []toldOfPlaces{{2, 2, 0, nil}, {3, 3, 0, nil}, {2, -2, time.Second, nil}, {3, -3, time.Second, nil}}; !slices.Equal(s.told, want) {
			t.Errorf("told %v, want %v", s.told, want)
		}
		if !errors.Is(h.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("it ended with %v and %v", h.Err(), context.Cause(ctx))
		}
		time.Sleep(placeLength)
		if len(s.renewed) > 0 || len(s.lost) > 0 || s.log.Len() > 0 {
			t.Errorf("renewed %v, lost %v, logged %s", s.renewed, s.lost, &s.log)
		}
	})
}

// A Hold is sure of its places until the first of them is lost, unless that is a shadow's.
func TestHoldIsSureOfAllPlaces(t *testing.T) {
	for lost, over := range map[int]bool{-1: false, 1: true, 2: true} {
		inPlaceBubble(t, func(t *testing.T, s *placeStore) {
			s.renew = func(numbers []int, answers []Renewal) error {
				for i, number := range numbers {
					if number == lost {
						answers[i] = NotHeld
					}
				}
				return nil
			}
			h := s.hold(-1, 1, 2)
			ctx := h.Context(t.Context())
			time.Sleep(placeLength / 2)
			synctest.Wait()
			if got := errors.Is(h.Err(), ErrNotHeld); got != over || errors.Is(context.Cause(ctx), ErrNotHeld) != over {
				t.Errorf("%d was lost: %v, and the context %v", lost, h.Err(), context.Cause(ctx))
			}
			if !slices.Equal(s.lost, []int{lost}) {
				t.Errorf("lost are %v, want %d", s.lost, lost)
			}
			h.End()
		})
	}
}

// What nobody can give back any more is given back when it would be renewed, whatever hooks do. What others have is renewed.
func TestForgottenPlacesAreGivenBack(t *testing.T) {
	for _, lost := range [][]int{{2, 3}, {2, 3, 4}} {
		inPlaceBubble(t, func(t *testing.T, s *placeStore) {
			s.renew = func(numbers []int, answers []Renewal) error {
				if i := slices.Index(numbers, 4); i >= 0 && len(lost) == 3 {
					answers[i] = NotHeld
				}
				return nil
			}
			func() { s.hold(2, 3) }()
			kept, others := s.hold(1), s.hold(4)
			runtime.GC()
			runtime.GC()
			time.Sleep(placeLength / 2)
			synctest.Wait()
			slices.Sort(s.givenBack)
			slices.Sort(s.lost)
			if kept.Err() != nil || (others.Err() != nil) != (len(lost) == 3) || !slices.Equal(s.givenBack, []int{2, 3}) || !slices.Equal(s.lost, lost) {
				t.Errorf("kept: %v, others: %v, given back %v, lost %v", kept.Err(), others.Err(), s.givenBack, s.lost)
			}
			if text := s.log.String(); strings.Count(text, "forgotten") != 1 || strings.Count(text, "lost before") != len(lost)-2 {
				t.Errorf("logged %s", text)
			}
			if last := s.told[len(s.told)-1]; !errors.Is(last.lost, errForgotten) || last.units >= 0 {
				t.Errorf("told %v", s.told)
			}
			kept.End()
			others.End()
		})
	}
}

// Of places that are due together, those that were forgotten are given back, and each of the others has its own answer.
func TestAnswersAreThoseOfTheirPlaces(t *testing.T) {
	inPlaceBubble(t, func(t *testing.T, s *placeStore) {
		s.renew = func(_ []int, answers []Renewal) error {
			answers[1] = NotHeld
			return nil
		}
		h := s.hold(1, 2)
		forgotten := &Place{Spec: placeLimit, Units: 3, began: time.Now()}
		answers := make([]Renewal, 3)
		if err := s.Places.renew(t.Context(), []*Place{h.places[0], forgotten, h.places[1]}, answers); err != nil {
			t.Error(err)
		}
		if want := []Renewal{Held, NotHeld, NotHeld}; !slices.Equal(answers, want) || !slices.Equal(s.renewed, []int{1, 2}) || !slices.Equal(s.givenBack, []int{3}) {
			t.Errorf("%v are renewed and %v given back, with the answers %v, want %v", s.renewed, s.givenBack, answers, want)
		}
		s.renew = nil
		if err := s.Places.renew(t.Context(), []*Place{forgotten, h.places[0], h.places[1]}, answers); err != nil || len(s.givenBack) != 1 {
			t.Errorf("given back is %v, %v", s.givenBack, err)
		}
		if want := []Renewal{NotHeld, Held, Held}; !slices.Equal(answers, want) {
			t.Errorf("the answers are %v, want %v", answers, want)
		}
		h.End()
	})
}

// Whoever claims places first gives them back, and nobody else.
func TestPlacesAreClaimedOnce(t *testing.T) {
	s := newPlaceStore()
	for _, first := range []Claimant{Permit, Reservation} {
		h := s.Hold()
		if mine, isFirst := h.Claim(first); !mine || !isFirst {
			t.Errorf("%d: mine %v, first %v", first, mine, isFirst)
		}
		if mine, isFirst := h.Claim(first); !mine || isFirst {
			t.Errorf("%d again: mine %v, first %v", first, mine, isFirst)
		}
		if mine, isFirst := h.Claim(Permit + Reservation - first); mine || isFirst {
			t.Errorf("the other one than %d: mine %v, first %v", first, mine, isFirst)
		}
	}
}
