package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// innocents is how many keys a cluster is asked about together with one that is used up.
const innocents = 16

// innocent is a key, and what it may have been charged.
type innocent struct {
	key           string
	least, atMost int // units
	// denied is how many units were charged by calls that did not pass, and are to be given back.
	denied int
}

// leftovers is a logger's handler that hears whether a store has told that it could not give something back.
type leftovers struct{ heard atomic.Bool }

func (*leftovers) Enabled(context.Context, slog.Level) bool { return true }

func (l *leftovers) Handle(_ context.Context, line slog.Record) error {
	if strings.Contains(line.Message, "a denied call stays charged") {
		l.heard.Store(true)
	}
	return nil
}

func (l *leftovers) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *leftovers) WithGroup(string) slog.Handler      { return l }

// A long life of calls over several servers, most of which another key denies, of settlements and of
// callers who leave, with connections that break in between, leaves on each key what was admitted,
// settled and not given back, and nothing else. What could not be given back may stay charged, where connections
// break or a machine is so busy that answers come too late: the log says so then.
func TestSoakOfACluster(t *testing.T) {
	shareTheMachine(t)
	s := newClusterSite(t, redistest.StartCluster(t))
	plan := repeatable.Random(t)
	calls, phases := 0, 0
	for end := time.Now().Add(*soakFor); phases < 2 || time.Now().Before(end); phases++ {
		s.prefix = redistest.Prefix(t)
		calls += s.soakPhase(t, plan.IntN(2) == 0)
		if t.Failed() {
			t.Fatalf("in phase %d", phases)
		}
	}
	t.Logf("%d phases, %d calls", phases, calls)
}

// soakPhase asks for a while, in the middle of which connections may break, and compares what is
// charged then. It returns how many calls there were.
func (s *clusterSite) soakPhase(t *testing.T, breaks bool) (calls int) {
	t.Helper()
	reader := s.reader(t)
	stays := &leftovers{}
	limiter := s.limiter(t, budget, core.WithLogger(slog.New(stays)))
	roomy, full := core.SlidingLog(1_000_000, 24*time.Hour), core.FixedWindow(1, 24*time.Hour)
	if _, err := reader.Allow(t.Context(), "full", full); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	all := make([]innocent, innocents)
	for i := range all {
		all[i].key = fmt.Sprint("innocent ", i)
	}
	note := func(i, least, atMost int) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		all[i].least += least
		all[i].atMost += atMost
	}
	act := func() {
		i := rand.N(innocents)
		own := core.Check{Key: all[i].key, Limit: roomy, Cost: 1 + rand.N(3)}
		switch rand.N(4) {
		case 0: // reserved and settled
			r, err := limiter.Reserve(t.Context(), own)
			if err != nil {
				note(i, 0, unknownOf(err, own.Cost))
				return
			}
			cost := rand.N(own.Cost + 1)
			err = r.Settle(t.Context(), cost)
			for errors.Is(err, core.ErrNotDone) {
				time.Sleep(rand.N(10 * time.Millisecond)) // and is no wait for anything: it was not sent
				err = r.Settle(t.Context(), cost)
			}
			note(i, cost, cost+unknownOf(err, own.Cost-cost))
		case 1: // by who leaves
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
			defer cancel()
			d, err := limiter.AllowAll(ctx, own)
			switch {
			case err != nil:
				note(i, 0, unknownOf(err, own.Cost))
			case d[0].Allowed:
				note(i, own.Cost, own.Cost)
			}
		default: // together with a key that is used up
			d, err := limiter.AllowAll(t.Context(), own, core.Check{Key: "full", Limit: full})
			if err == nil && d[1].Allowed {
				t.Errorf("a call passed that another key denies: %+v", d)
			}
			unknown := unknownOf(err, own.Cost)
			note(i, 0, unknown)
			mu.Lock()
			all[i].denied += own.Cost - unknown
			mu.Unlock()
		}
	}
	stopped := make(chan struct{})
	var group sync.WaitGroup
	for range 4 * callers {
		group.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
					act()
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // and is no wait for anything
	if breaks {
		for _, p := range s.proxies {
			p.Set(faultproxy.Fault{When: "evalsha", CutReplies: true})
		}
		time.Sleep(100 * time.Millisecond)
		s.set(faultproxy.Fault{})
	}
	time.Sleep(300 * time.Millisecond)
	close(stopped)
	group.Wait()
	if err := limiter.Close(); err != nil { // what is given back later is given back then
		t.Error(err)
	}
	for _, one := range all {
		d, err := reader.Peek(t.Context(), one.key, roomy)
		if err != nil {
			t.Fatal(err)
		}
		if stays.heard.Load() {
			one.atMost += one.denied
		}
		used := roomy.Capacity() - d.Remaining
		if used < one.least || used > one.atMost {
			t.Errorf("%s has %d charged, want %d to %d; connections broke: %t", one.key, used, one.least, one.atMost, breaks)
		}
	}
	return calls
}

// unknownOf returns how many of some units may have been charged, or not given back, by what an error says.
func unknownOf(err error, units int) int {
	if err == nil || !mayBeCharged(err) {
		return 0
	}
	return units
}
