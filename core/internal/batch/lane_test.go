package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoneCallIsSentAtOnce(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		began := time.Now()
		for range 3 {
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
		s.wantBatches(t, 1, 1, 1)
	})
}

func TestCallsThatWaitAreSentTogether(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), times(7)...)
		s.wantBatches(t, 1, 1) // no more than two in flight
		release()
		wantNone(t, first(), others())
		s.wantBatches(t, 1, 1, 7)
	})
}

// Calls with the same request that wait together are sent once, and know their place.
func TestCallsThatAskTheSameAreOneGroup(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		names := []string{"a", "b", "a", "", "a", "b", ""}
		calls := make([]*Call[request, int], len(names))
		var group sync.WaitGroup
		for i, name := range names {
			calls[i] = s.NewCall()
			calls[i].Request = request{name, 1}
			group.Go(func() {
				if err := s.Do(t.Context(), calls[i]); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release()
		group.Wait()
		wantNone(t, first())
		if got := s.seen()[2]; !slices.Equal(got, seenBatch{"a:3", "b:2", ":1", ":1"}) {
			t.Errorf("the server was asked %v", got)
		}
		for i, want := range []struct{ answer, place int }{{200, 0}, {201, 0}, {200, 1}, {202, 0}, {200, 2}, {201, 1}, {203, 0}} {
			if c := calls[i]; c.Answer != want.answer || c.Place != want.place || c.Err != nil {
				t.Errorf("call %d: answer %d in place %d, %v, want %v", i, c.Answer, c.Place, c.Err, want)
			}
		}
	})
}

// Different requests with the same hash are not one group.
func TestGroupsWithOneHash(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), request{"a", 1}, request{"b", 1}, request{"a", 1}, request{"b", 1}, request{"b", 1})
		release()
		wantNone(t, first(), others())
		total := 0
		for _, group := range s.seen()[2] {
			var n int
			_, _ = fmt.Sscanf(group[2:], "%d", &n)
			total += n
		}
		if total != 5 {
			t.Errorf("the server was asked %v, want 5 calls", s.seen()[2])
		}
	}, func(c *Config[request, int]) { c.Hash = func(*request) uint64 { return 7 } })
}

func TestBatchIsNeverTooFull(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(2+2*testFull+5)...)
		release()
		wantNone(t, errs())
		total := 0
		for _, batch := range s.seen() {
			total += len(batch)
			if len(batch) > testFull {
				t.Errorf("%d in a batch, want at most %d", len(batch), testFull)
			}
		}
		if total != 2+2*testFull+5 {
			t.Errorf("%d were asked", total)
		}
	})
}

// A call that weighs more than a full batch is sent alone.
func TestLargeCallIsSent(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), request{"small", 1}, request{"large", 10 * testFull}, request{"last", 1})
		release()
		wantNone(t, first(), others())
		s.wantBatches(t, 1, 1, 1, 1, 1)
	})
}

func TestTooManyWaiting(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving := s.askMany(ctx, times(5)...)
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrFull) {
			t.Errorf("error %v, want ErrFull", err)
		}
		cancel()
		leaving()
		staying := s.askMany(t.Context(), times(1)...) // in the place of one who has left
		release()
		wantNone(t, first(), staying())
	}, func(c *Config[request, int]) { c.MostWaiting = 5 })
}

func TestCloseDrains(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(10)...)
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrClosed) {
			t.Errorf("a call after Close: %v", err)
		}
		select {
		case <-closed:
			t.Error("Close has not waited for the answers")
		default:
		}
		release()
		wantNone(t, errs())
		<-closed
		s.Close() // again
	})
}

func TestCloseIsBounded(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(100)...)
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > testPatience+testBudget {
			t.Errorf("Close took %v", took)
		}
		release()
		errs()
	})
}

// A batch whose time was up leaves the next one neither its deadline nor its groups.
func TestBatchesBeginAnew(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		s.askMany(t.Context(), times(1)...)()
		release()
		synctest.Wait()
		send := s.Send
		s.Send = func(ctx *Context, batch []*Group[request, int]) error {
			if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ctx.Sent() || !ok || time.Until(deadline) != testBudget {
				t.Errorf("a batch begins with %v, sent %t, until %v", ctx.Err(), ctx.Sent(), deadline)
			}
			err := send(ctx, batch)
			if deadline, _ := ctx.Deadline(); !ctx.Sent() || time.Until(deadline) != testBudget {
				t.Errorf("a batch that was sent has until %v", deadline)
			}
			return err
		}
		for range 3 {
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		for _, spare := range s.sparing {
			for _, g := range spare.batch[:cap(spare.batch)] {
				if g != nil {
					t.Error("a group that was answered is kept alive")
				}
			}
		}
		for _, g := range s.groups {
			if *g != (Group[request, int]{}) {
				t.Errorf("a group that was answered keeps %+v", *g)
			}
		}
	})
}

// Each batch is reported, after its calls have been answered.
func TestReports(t *testing.T) {
	var mu sync.Mutex
	var reports []Report
	forBothClients(t, func(t *testing.T, s *server) {
		synctest.Wait()
		reports = nil
		s.delay = testBudget / 2
		first := s.askMany(t.Context(), times(2)...)
		others := s.askMany(t.Context(), request{"a", 2}, request{"a", 2}, request{"b", 3})
		wantNone(t, first(), others())
		s.fail(1, errDown)
		_ = s.ask(t.Context(), request{weight: 1})
		synctest.Wait()
		want := []Report{
			{1, 1, testBudget / 2, nil}, {1, 1, testBudget / 2, nil}, {3, 5, testBudget / 2, nil}, {1, 1, testBudget / 2, errDown},
		}
		if !slices.Equal(reports, want) {
			t.Errorf("reported %v, want %v", reports, want)
		}
	}, func(c *Config[request, int]) {
		c.Report = func(r Report) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, r)
		}
	})
}
