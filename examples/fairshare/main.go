// Fairshare simulates tenants that share one limit without a list of them, and compares them with the same tenants under the limit
// alone. Time is the program's own, so that a minute takes a moment:
//
//   - tenants ask at any rate, come late, leave, and some reserve ten times their cost and settle it later;
//   - for each crowd, from 2 tenants to 10,000, it prints the share of the rate that greedy tenants got, how equal these were (Jain's
//     index: 1 if all are the same), and how many of their calls modest tenants lost;
//   - with -svg it draws the plots of docs/fair-shares.md into a directory.
//
// To try it:
//
//	go run ./examples/fairshare
//	go run ./examples/fairshare -svg docs/fair-shares
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func main() {
	directory := flag.String("svg", "", "a `directory` for the plots")
	flag.Parse()
	if err := run(os.Stdout, *directory); err != nil {
		log.Fatal(err)
	}
}

// run prints the table, and draws the plots if there is a directory for them.
func run(w io.Writer, directory string) error {
	if err := table(w); err != nil || directory == "" {
		return err
	}
	for name, shared := range map[string]bool{"with-shares.svg": true, "first-come.svg": false} {
		text, err := plot(shared)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tenant asks at a rate, from one moment to another.
type tenant struct {
	name       string
	perSecond  float64
	weight     int
	from, to   time.Duration
	lies       bool // it reserves ten times its cost, and settles that half a second later
	asked, got int
	next       time.Duration
	series     []int // units by the half second, for plots
}

// world is a limiter with a clock of its own.
type world struct {
	now     time.Duration
	limiter *core.Limiter
	limit   core.Quota
	shared  bool
	later   []settlement
}

// settlement is a reservation that is settled at a moment.
type settlement struct {
	at          time.Duration
	reservation *core.Reservation
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newWorld returns a world with a limit, which tenants share or take as they come.
func newWorld(limit core.Quota, shared bool, tenants int) *world {
	w := &world{limit: limit, shared: shared}
	w.limiter = core.New(core.NewMemory(core.WithClock(func() time.Time { return epoch.Add(w.now) }), core.WithMaxKeys(4*tenants+1000)))
	return w
}

// run has tenants ask until an end. What they get before a warm-up is over is not counted.
func (w *world) run(tenants []*tenant, end, warm time.Duration) error {
	random := rand.New(rand.NewPCG(1, 2))
	queue := make([][]*tenant, end/time.Millisecond+1) // by the millisecond
	push := func(t *tenant) {
		if t.next < min(end, t.to) {
			queue[t.next/time.Millisecond] = append(queue[t.next/time.Millisecond], t)
		}
	}
	for _, t := range tenants {
		t.next = t.from + time.Duration(random.Float64()/t.perSecond*float64(time.Second))
		push(t)
	}
	for ms := range queue {
		slices.SortFunc(queue[ms], func(a, b *tenant) int { return cmp.Compare(a.next, b.next) })
		for i := 0; i < len(queue[ms]); i++ { //nolint:intrange // it grows meanwhile
			t := queue[ms][i]
			w.now = max(w.now, t.next)
			if err := w.settle(); err != nil {
				return err
			}
			passed, err := w.ask(t)
			if err != nil {
				return err
			}
			if t.next >= warm {
				t.asked++
				if passed {
					t.got++
				}
			}
			if slot := int(t.next / (500 * time.Millisecond)); passed && slot < len(t.series) {
				t.series[slot]++
			}
			t.next += time.Duration((0.9 + 0.2*random.Float64()) / t.perSecond * float64(time.Second))
			push(t)
		}
	}
	return w.limiter.Close()
}

// ask asks for a tenant.
func (w *world) ask(t *tenant) (passed bool, err error) {
	check := core.Check{Key: "all", Limit: w.limit, Cost: 1}
	if t.lies {
		check.Cost = 10
	}
	checks := []core.Check{check}
	if w.shared {
		checks = core.FairShare(check, t.name, t.weight)
	}
	if !t.lies {
		decisions, err := w.limiter.AllowAll(context.Background(), checks...)
		_, denied := core.Denied(decisions)
		return !denied, err
	}
	reservation, err := w.limiter.Reserve(context.Background(), checks...)
	if err != nil || !reservation.Allowed() {
		return false, err
	}
	w.later = append(w.later, settlement{w.now + 500*time.Millisecond, reservation})
	return true, nil
}

// settle settles the reservations that are due.
func (w *world) settle() error {
	for len(w.later) > 0 && w.later[0].at <= w.now {
		costs := []int{1, 1}
		if err := w.later[0].reservation.Settle(context.Background(), costs[:len(w.later[0].reservation.Decisions())]...); err != nil {
			return err
		}
		w.later = w.later[1:]
	}
	return nil
}

// crowd is greedy and modest tenants under a limit that fits their number.
type crowd struct {
	name           string
	greedy, modest int
	liars          int // of the greedy ones
}

var crowds = []crowd{
	{"alone", 1, 0, 0},
	{"1 greedy, 1 modest", 1, 1, 0},
	{"5 greedy, 5 modest", 5, 5, 0},
	{"10 greedy, half of them lie", 10, 2, 5},
	{"100 greedy, 100 modest", 100, 100, 0},
	{"1,000 greedy, 1,000 modest", 1000, 1000, 0},
	{"5,000 greedy, 5,000 modest", 5000, 5000, 0},
}

// table prints a row for each crowd.
func table(w io.Writer) error {
	fmt.Fprintf(w, "%-30s %30s %30s\n", "", "with shares", "first come")
	fmt.Fprintf(w, "%-30s %10s %8s %10s %10s %8s %10s\n", "tenants", "of rate", "Jain", "lost", "of rate", "Jain", "lost")
	for _, c := range crowds {
		fmt.Fprintf(w, "%-30s", c.name)
		for _, shared := range []bool{true, false} {
			rate, jain, lost, err := c.simulate(shared)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, " %9.1f%% %8.3f %9.2f%%", 100*rate, jain, 100*lost)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// simulate returns the part of the rate that all tenants got, Jain's index of the greedy ones, and the part of their calls that modest
// tenants lost.
func (c crowd) simulate(shared bool) (rate, jain, lost float64, err error) {
	n := c.greedy + c.modest
	perSecond := max(100, 2*n)
	capacity := max(200, 10*n)
	if c.liars > 0 { // what is reserved at once has to fit
		capacity *= 10
	}
	end, warm := 20*time.Second, 8*time.Second
	if c.liars > 0 { // the bucket is full later
		end, warm = 80*time.Second, 50*time.Second
	}
	tenants := make([]*tenant, 0, n)
	for i := range n {
		t := &tenant{name: "tenant-" + strconv.Itoa(i), weight: 1, to: end, perSecond: 3 * float64(perSecond) / float64(c.greedy)}
		if i >= c.greedy {
			t.perSecond = 0.4 * float64(perSecond) / float64(n)
		}
		t.lies = i < c.liars
		tenants = append(tenants, t)
	}
	if err := newWorld(core.TokenBucket(capacity, core.PerSecond(perSecond)), shared, n).run(tenants, end, warm); err != nil {
		return 0, 0, 0, err
	}
	sum, squares, total, asked, got := 0.0, 0.0, 0.0, 0, 0
	for i, t := range tenants {
		total += float64(t.got)
		if i < c.greedy {
			sum, squares = sum+float64(t.got), squares+float64(t.got)*float64(t.got)
		} else {
			asked, got = asked+t.asked, got+t.got
		}
	}
	if asked > 0 {
		lost = 1 - float64(got)/float64(asked)
	}
	return total / (float64(perSecond) * (end - warm).Seconds()), sum * sum / (float64(c.greedy) * squares), lost, nil
}
