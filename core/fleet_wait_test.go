package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// childCrowd is the environment variable that makes this test binary a process of TestWaitersOfAFleetAreServedInOrder. It
// says what it does.
const childCrowd = "RATELIMIT_TEST_CROWD"

// crowdWork is what a process does.
type crowdWork struct {
	URL, Prefix     string
	Workers, Places int
	Hold, Lasts     time.Duration
}

// crowdReport is what has become of it.
type crowdReport struct {
	Served, Denied int
	Held, Longest  time.Duration // all holds together, and the longest wait
	First, Last    time.Time
}

// beCrowd has workers take a place, hold it and give it back, again and again, and prints what has become of that.
func beCrowd(text string) int {
	var work crowdWork
	if err := json.Unmarshal([]byte(text), &work); err != nil {
		return fail(err)
	}
	options, err := redis.ParseURL(work.URL)
	if err != nil {
		return fail(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limiter := core.New(core.NewRedis(client, core.WithPrefix(work.Prefix), core.WithBudget(time.Minute)))
	ctx, cancel := context.WithTimeout(context.Background(), work.Lasts)
	defer cancel()
	var mu sync.Mutex
	var report crowdReport
	var group sync.WaitGroup
	for range work.Workers {
		group.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				permit, err := limiter.Acquire(ctx, "key", core.Concurrent(work.Places, 10*time.Second))
				waited, from := time.Since(began), time.Now()
				if err == nil {
					time.Sleep(work.Hold)
					permit.Release()
				}
				mu.Lock()
				switch {
				case err == nil:
					if report.Served++; report.First.IsZero() {
						report.First = from
					}
					report.Last = time.Now()
					report.Held += time.Since(from)
					report.Longest = max(report.Longest, waited)
				case !errors.Is(err, context.DeadlineExceeded):
					report.Denied++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := limiter.Close(); err != nil {
		return fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return fail(err)
	}
	return 0
}

// Processes whose workers want the same are served alike, nobody is denied, nobody waits for much longer than in one queue,
// and no place is free for long while somebody waits.
func TestWaitersOfAFleetAreServedInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	const lasts = 4 * time.Second
	for name, c := range map[string]struct {
		processes, workers, places int
		hold                       time.Duration
	}{
		"two processes, one place":   {2, 5, 1, 20 * time.Millisecond},
		"ten processes, two places":  {10, 3, 2, 20 * time.Millisecond},
		"two processes, a long hold": {2, 5, 1, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			work, err := json.Marshal(crowdWork{redistest.Shared(t).URL(), redistest.Prefix(t), c.workers, c.places, c.hold, lasts})
			if err != nil {
				t.Fatal(err)
			}
			reports := make([]crowdReport, c.processes)
			var group sync.WaitGroup
			for i := range reports {
				group.Go(func() {
					child := exec.CommandContext(t.Context(), os.Args[0])
					child.Env = append(os.Environ(), childCrowd+"="+string(work))
					child.Stderr = os.Stderr
					out, err := child.Output()
					if err == nil {
						err = json.Unmarshal(out, &reports[i])
					}
					if err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				})
			}
			group.Wait()
			first, last := reports[0].First, reports[0].Last
			served, least, most, held, longest := 0, reports[0].Served, 0, time.Duration(0), time.Duration(0)
			for _, r := range reports {
				if r.Denied > 0 {
					t.Errorf("%d were denied", r.Denied)
				}
				if r.First.Before(first) {
					first = r.First
				}
				if r.Last.After(last) {
					last = r.Last
				}
				served, held = served+r.Served, held+r.Held
				least, most, longest = min(least, r.Served), max(most, r.Served), max(longest, r.Longest)
			}
			// In one queue each of the workers waits for all others.
			ideal := held / time.Duration(served) * time.Duration(c.processes*c.workers) / time.Duration(c.places)
			busy := float64(held) / float64(last.Sub(first)) / float64(c.places)
			t.Logf("served from %d to %d, the longest wait %v of ideally %v, busy %.2f", least, most, longest, ideal, busy)
			if slack := c.workers + most/10; most-least > slack { // they do not begin at the same time
				t.Errorf("processes that are equal were served from %d to %d times", least, most)
			}
			if longest > 3*ideal+500*time.Millisecond { // a machine that does something else counts, too
				t.Errorf("the longest wait was %v, in one queue it is %v", longest, ideal)
			}
			if busy < 0.5 { // with polls alone it is a quarter
				t.Errorf("the places were in use for %.0f%% of the time", 100*busy)
			}
		})
	}
}
