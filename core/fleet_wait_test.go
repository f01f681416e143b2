package core_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
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
	Rate            string // a limit for which the workers wait, instead of places
	All             bool   // with WaitAll
	Hold, For       time.Duration
}

// crowdReport is what has become of it.
type crowdReport struct {
	Served, Denied int
	Held, Longest  time.Duration // all holds together, and the longest wait
	Stalled        time.Duration // for how long the machine has stood still at most
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	take := func() (giveBack func(), err error) {
		permit, err := limiter.Acquire(ctx, "key", core.Concurrent(work.Places, 10*time.Second))
		return permit.Release, err
	}
	if work.Rate != "" {
		limit, err := core.ParseLimit(work.Rate)
		if err != nil {
			return fail(err)
		}
		take = func() (func(), error) { return func() {}, limiter.Wait(ctx, "key", limit.(core.Quota)) }
		if work.All {
			checks := []core.Check{{Key: "key", Limit: limit}, {Key: "key", Limit: core.TokenBucket(10_000, core.PerSecond(10_000))}}
			take = func() (func(), error) {
				_, err := limiter.WaitAll(ctx, checks)
				return func() {}, err
			}
		}
	}
	if err := begin(); err != nil {
		return fail(err)
	}
	time.AfterFunc(work.For, cancel)
	var mu sync.Mutex
	var report crowdReport
	var group sync.WaitGroup
	stalled := watchStalls(client)
	for range work.Workers {
		group.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				giveBack, err := take()
				waited, from := time.Since(began), time.Now()
				if err == nil {
					time.Sleep(work.Hold)
					giveBack()
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
				case !errors.Is(err, context.Canceled):
					report.Denied++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	report.Stalled = stalled()
	if err := limiter.Close(); err != nil {
		return fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return fail(err)
	}
	return 0
}

// Processes whose workers want the same are served alike, nobody is denied, nobody waits for much longer than in one queue,
// and places are hardly ever free while somebody waits. A machine that does something else meanwhile counts, too: see servedAlike.
// A slow machine takes longer to hand a place over, so the next time places are held for twice as long.
func TestWaitersOfAFleetAreServedInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	for name, c := range map[string]crowd{
		"two processes, one place":   {2, 5, 1, 20 * time.Millisecond},
		"ten processes, two places":  {10, 3, 2, 20 * time.Millisecond},
		"two processes, a long hold": {2, 5, 1, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servedAlike(t, func(slower int) (string, time.Duration) {
				slow := c
				slow.hold *= time.Duration(slower)
				seen := slow.run(t)
				t.Log(seen)
				if seen.denied > 0 {
					t.Errorf("%d were denied", seen.denied)
				}
				unfair := seen.most-seen.least > max(c.workers, seen.most/10) // the last round may end with all workers of a process
				return wrongWith(unfair, seen.longest > seen.ideal*3/2+50*time.Millisecond, seen.busy < 0.9), seen.stalled
			})
		})
	}
}

// wrongWith says what is wrong with how processes are served.
func wrongWith(unfair, slow, idle bool) string {
	if !unfair && !slow && !idle {
		return ""
	}
	return fmt.Sprintf("unfair: %t, slow: %t, idle: %t", unfair, slow, idle)
}

// crowd is processes whose workers take a place, hold it and give it back.
type crowd struct {
	processes, workers, places int
	hold                       time.Duration
}

// crowdSeen is what becomes of a crowd.
type crowdSeen struct {
	least, most, denied int // served of a process, and denied of all
	longest, ideal      time.Duration
	busy                float64
	stalled             time.Duration
}

func (s crowdSeen) String() string {
	return fmt.Sprintf("served from %d to %d, the longest wait %v of ideally %v, busy %.2f, stalled for %v", s.least, s.most, s.longest, s.ideal, s.busy, s.stalled)
}

// run has the processes work for three seconds, or for as long as it takes that each worker is served four times.
func (c crowd) run(t *testing.T) (seen crowdSeen) {
	t.Helper()
	reports := runCrowd(t, slices.Repeat([]crowdWork{{
		URL: redistest.Shared(t).URL(), Prefix: redistest.Prefix(t), Workers: c.workers, Places: c.places, Hold: c.hold,
		For: max(3*time.Second, 4*c.hold*time.Duration(c.processes*c.workers/c.places)),
	}}, c.processes))
	served, held := 0, time.Duration(0)
	first, last := reports[0].First, reports[0].Last
	seen.least = reports[0].Served
	for _, r := range reports {
		if r.First.Before(first) {
			first = r.First
		}
		if r.Last.After(last) {
			last = r.Last
		}
		served, held = served+r.Served, held+r.Held
		seen.least, seen.most = min(seen.least, r.Served), max(seen.most, r.Served)
		seen.longest, seen.denied = max(seen.longest, r.Longest), seen.denied+r.Denied
		seen.stalled = max(seen.stalled, r.Stalled)
	}
	// In one queue each of the workers waits for all others.
	seen.ideal = held / time.Duration(max(1, served)) * time.Duration(c.processes*c.workers) / time.Duration(c.places)
	seen.busy = float64(held) / float64(last.Sub(first)) / float64(c.places)
	return seen
}

// begin says that this process is ready, and returns when all others are.
func begin() error {
	if _, err := fmt.Fprintln(os.Stdout, "ready"); err != nil {
		return err
	}
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// runCrowd has as many processes work, all from one instant on, and returns what has become of each.
func runCrowd(t *testing.T, works []crowdWork) []crowdReport {
	t.Helper()
	reports := make([]crowdReport, len(works))
	var ready, group sync.WaitGroup
	ready.Add(len(works))
	for i, work := range works {
		group.Go(func() {
			if err := work.run(t.Context(), &ready, &reports[i]); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return reports
}

// run has a process do it, from when all are ready.
func (w crowdWork) run(ctx context.Context, ready *sync.WaitGroup, report *crowdReport) error {
	isReady := sync.OnceFunc(ready.Done)
	defer isReady() // or the others would wait for ever
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), childCrowd+"="+string(text))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	said := bufio.NewReader(out)
	_, err = said.ReadString('\n')
	isReady()
	ready.Wait()
	if err == nil {
		_, err = fmt.Fprintln(in)
	}
	if err == nil {
		err = json.NewDecoder(said).Decode(report)
	}
	return errors.Join(err, child.Wait())
}

// Processes whose workers wait for units of a rate are served in the order of arrival, so that each worker gets as many
// as any other, however many its process has. Nobody waits for much longer than in one queue, and the rate is used. A machine
// that does something else meanwhile counts, too: see servedAlike. A slow machine takes longer to serve the next one, so the next time
// the pace is half of what it was.
func TestWaitersForARateAreServedInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	for name, c := range map[string]rateCrowd{
		"two processes":            {core.GCRA, 2, 20 * time.Millisecond, []int{5, 5}, false},
		"one of ten workers":       {core.Leaky, 2, 20 * time.Millisecond, []int{1, 9}, false},
		"ten processes":            {core.TokenBucket, 5, 10 * time.Millisecond, []int{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, false},
		"two processes, crowded":   {core.GCRA, 50, time.Millisecond, []int{100, 300}, false},
		"a pace slower than that":  {core.Leaky, 1, 300 * time.Millisecond, []int{2, 1}, false},
		"calls of one of ten":      {core.Leaky, 2, 20 * time.Millisecond, []int{1, 9}, true},
		"calls of three processes": {core.TokenBucket, 5, 20 * time.Millisecond, []int{2, 4, 6}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servedAlike(t, func(slower int) (string, time.Duration) {
				slow := c
				slow.pace *= time.Duration(slower)
				return slow.run(t)
			})
		})
	}
}

// rateCrowd is processes whose workers wait for units of a rate.
type rateCrowd struct {
	limit    func(capacity int, rate core.Rate) core.Quota
	capacity int
	pace     time.Duration
	workers  []int // of each process
	all      bool  // they wait with WaitAll
}

// run has the processes work for two seconds, or for as long as it takes that each worker is served four times.
func (c rateCrowd) run(t *testing.T) (wrong string, stalled time.Duration) {
	t.Helper()
	workers := 0
	for _, n := range c.workers {
		workers += n
	}
	ideal := time.Duration(workers) * c.pace
	works, prefix := make([]crowdWork, len(c.workers)), redistest.Prefix(t)
	for i, n := range c.workers {
		works[i] = crowdWork{
			URL: redistest.Shared(t).URL(), Prefix: prefix, Workers: n, Rate: c.limit(c.capacity, core.Per(1, c.pace)).String(), All: c.all,
			For: max(2*time.Second, 4*ideal),
		}
	}
	reports := runCrowd(t, works)
	first, last := reports[0].First, reports[0].Last
	least, most, served, longest := math.Inf(1), 0.0, 0, time.Duration(0)
	for i, r := range reports {
		if r.First.Before(first) {
			first = r.First
		}
		if r.Last.After(last) {
			last = r.Last
		}
		each := float64(r.Served) / float64(c.workers[i])
		least, most, longest, stalled = min(least, each), max(most, each), max(longest, r.Longest), max(stalled, r.Stalled)
		served += r.Served
		if r.Denied > 0 {
			t.Errorf("%d were denied", r.Denied)
		}
	}
	used := float64(served-c.capacity) * float64(c.pace) / float64(last.Sub(first))
	t.Logf("served from %.1f to %.1f each, the longest wait %v of ideally %v, used %.2f, stalled for %v", least, most, longest, ideal, used, stalled)
	// In a round of all workers, processes may be 100 milliseconds out of order.
	unfair := most-least > max(1.5, most*(0.1+float64(100*time.Millisecond)/float64(ideal)))
	return wrongWith(unfair, longest > ideal*3/2+50*time.Millisecond, used < 0.9), stalled
}
