package main

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestSchedulesAreInOrderAndBounded(t *testing.T) {
	presses := []press{{time.Second, 1}, {2 * time.Second, 10}, {30 * time.Second, 10}, {31 * time.Second, 1}}
	for _, p := range patterns {
		for n := 1; n <= mostCompared; n++ {
			for _, window := range []time.Duration{shortestCompared, 2 * time.Second, longestCompared} {
				schedule, err := p.schedule(n, window, presses)
				if err != nil {
					t.Fatal(err)
				}
				if len(schedule) == 0 || len(schedule) > mostScheduled || !slices.IsSorted(schedule) ||
					schedule[0] < 0 || schedule[len(schedule)-1] > longestSchedule {
					t.Errorf("%s of %d in %v: %v", p.Name, n, window, schedule)
				}
			}
		}
	}
}

func TestOwnRequestsAreSentAgainAsTheyWere(t *testing.T) {
	got, err := own(5, time.Second, []press{{time.Second, 1}, {30 * time.Second, 2}, {31 * time.Second, 1}})
	if want := []time.Duration{0, 0, time.Second}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v: the last stretch alone", got, err, want)
	}
}

func TestMostInAWindow(t *testing.T) {
	var l lane
	for _, at := range []int64{5_000_000, 0, 2_700_000, 2_700_001, 3_300_000} { // in any order
		l.pass(at, 3_000_000)
	}
	if l.Most != 4 || l.From != 2_700_000 {
		t.Errorf("at most %d, from %d", l.Most, l.From)
	}
}

func TestBoundaryBurstTellsTheFixedWindowFromTheLog(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	watch := c.watch(t)
	var f *frame
	var points []point
	for kept := false; !kept; { // until the machine keeps to the schedule
		points = nil
		c.must("POST", "/comparison", `{"framework":"nethttp","pattern":"boundary","capacity":"3","window":"2"}`)
		f, _ = watch(func(f *frame, _ []answer) bool {
			if f.Run != nil {
				points = append(points, f.Run.Points...)
			}
			return f.Run != nil && f.Run.Done
		})
		kept = !slices.ContainsFunc(points, func(p point) bool {
			planned := []int64{0, 1_730_000, 2_270_000}
			return !slices.ContainsFunc(planned, func(at int64) bool { return p.At >= at && p.At < at+150_000 })
		})
	}
	if f.Run.Problem != "" || len(points) != 6*len(algorithms) {
		t.Fatalf("%d points, %q", len(points), f.Run.Problem)
	}
	for _, l := range f.Run.Lanes {
		if l.Admitted+l.Refused != 6 {
			t.Errorf("%+v is not all that was sent", l)
		}
		switch {
		case l.Algorithm == "fixed-window" && (l.Most != 5 || l.Refused != 0):
			t.Errorf("the fixed window let %d of 6 pass, at most %d in its length", l.Admitted, l.Most)
		case l.Algorithm == "sliding-log" && l.Most != 3:
			t.Errorf("the log let %d pass in its length", l.Most)
		}
	}
	for i, card := range f.Cards {
		if card.State.Reset != 0 || card.Waiting != 0 {
			t.Errorf("the comparison has used the card of %s: %+v", algorithms[i].Name, card.State)
		}
	}
}

func TestAComparisonCanBeStoppedAndReplaced(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	watch := c.watch(t)
	const steady = `{"framework":"gin","pattern":"steady","capacity":"2","window":"5"}`
	c.must("POST", "/comparison", steady)
	f, _ := watch(func(f *frame, _ []answer) bool { return f.Run != nil && len(f.Run.Points) > 0 })
	first := f.RunID
	c.must("POST", "/comparison", steady)
	f, _ = watch(func(f *frame, _ []answer) bool { return f.RunID != first && f.Run != nil && len(f.Run.Points) > 0 })
	second := f.RunID
	c.must("DELETE", "/comparison", "")
	f, _ = watch(func(f *frame, _ []answer) bool { return f.Run != nil && f.Run.Done })
	if f.RunID != second || f.Run.Problem != "stopped" {
		t.Errorf("run %d: %q", f.RunID, f.Run.Problem)
	}
	c.must("POST", "/reset", "")
	watch(func(f *frame, _ []answer) bool { return f.RunID == 0 })
}

func TestALaterStreamIsToldTheWholeComparison(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	c.must("POST", "/requests", `{"algorithm":"gcra","framework":"gin","count":1}`)
	c.must("POST", "/comparison", `{"framework":"echo","pattern":"own","capacity":"1","window":"1"}`)
	c.watch(t)(func(f *frame, _ []answer) bool { return f.Run != nil && f.Run.Done })
	f, _ := c.watch(t)(func(*frame, []answer) bool { return true })
	if f.Run == nil || !f.Run.Whole || !f.Run.Done || len(f.Run.Points) != len(algorithms) {
		t.Fatalf("%+v", f.Run)
	}
	for _, p := range f.Run.Points {
		if p.Status != http.StatusOK || !p.Admitted {
			t.Errorf("one of one: %+v", p)
		}
	}
}
