//go:build !race

// The simulation asks one request after the other: make test runs it without the race detector, which takes seven times as long.

package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/weir-go/ratelimit/bench/internal/picture"
)

var write = flag.Bool("write", false, "write the table and the plots of docs/leases-at-scale.md")

const docs = "../../docs"

// tolerances are those of the plots. Without one, each check is asked of the store.
var tolerances = []float64{0, 0.01, 0.1}

// lasting returns for how long leases last, in seconds.
func lasting(over float64) float64 { return over * capacity / capacity }

// The page says what the simulation finds, and no simulation breaks a bound.
func TestPage(t *testing.T) {
	var all []outcome
	for i, over := range tolerances {
		demands := []int{[...]int{1_200_000, 1_200_000, 900_000}[i]}
		if *write {
			demands = []int{100_000, 200_000, 400_000, 600_000, 800_000, 900_000, 1_000_000, 1_100_000, 1_200_000, 1_500_000, 2_000_000}
		}
		for _, demand := range demands {
			if over == 0 && demand > 1_200_000 {
				continue // the exact store is asked for each request, however many there are
			}
			o := simulate(t, over, demand)
			t.Logf("%+v", o)
			all = append(all, o)
			// What was asked at one instant has passed a millisecond later at most, in which as much refills.
			const way = 0.001 + float64(units)/capacity
			if o.excess > over+way {
				t.Errorf("%+v: more than the bound has passed", o)
			}
			if o.late > over {
				t.Errorf("%+v: a server tells of more than the tolerance", o)
			}
			if o.admitted < 0.98 {
				t.Errorf("%+v: too little has passed", o)
			}
			// Two calls in the time of a lease, and the checks of the first moments, in which the key is not hot yet. Where a server asks
			// for less, a lease is too few of the simulation's calls.
			if most := servers * (2/lasting(over) + 100); over > 0 && demand >= 400_000 && demand < capacity && o.decided > most {
				t.Errorf("%+v: want at most %.0f decisions a second", o, most)
			}
		}
	}
	if *write {
		writePage(t, all)
	}
}

func writePage(t *testing.T, all []outcome) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| Over | asked for, a second | admitted, of what an ideal limiter admits | above the bucket in any time, at most | the bound | decided by Redis, a second | units given back |\n|---|---|---|---|---|---|---|\n")
	for _, o := range all {
		if o.over == 0 && o.demand < capacity { // all are asked of Redis, and all are admitted
			continue
		}
		name := fmt.Sprint(o.over)
		if o.over == 0 {
			name = "0: exact"
		}
		fmt.Fprintf(&table, "| %s | %s | %.4f | %.2f %% | %.0f %% | %s | %.1f %% |\n",
			name, thousands(o.demand), o.admitted, 100*o.excess, 100*o.over, thousands(int(o.decided)), 100*o.returned)
	}
	path := filepath.Join(docs, "leases-at-scale.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("the page has no place for the table")
	}
	if err := os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
	drawn(t, "leases-decided", "Decided by Redis for 20 servers", "a second", all, func(o outcome) float64 { return o.decided }, true)
	drawn(t, "leases-admitted", "Admitted, of what an ideal limiter admits", "share", all, func(o outcome) float64 { return o.admitted }, false)
	drawn(t, "leases-over", "Above the bucket in any time, of its capacity", "per cent", all, func(o outcome) float64 { return 100 * o.excess }, false)
}

// drawn draws a figure over the demand, a line for each tolerance.
func drawn(t *testing.T, name, title, label string, all []outcome, figure func(outcome) float64, logarithmic bool) {
	t.Helper()
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "requests a second, in thousands", label
	if logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, over := range tolerances {
		var points plotter.XYs
		for _, o := range all {
			if o.over == over {
				points = append(points, plotter.XY{X: float64(o.demand) / 1000, Y: figure(o)})
			}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			t.Fatal(err)
		}
		line.Color, line.Width = plotutil.Color(i), vg.Points(1.5)
		dots.Color, dots.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, dots)
		title := fmt.Sprintf("Over: %v", over)
		if over == 0 {
			title = "exact"
		}
		p.Legend.Add(title, line, dots)
	}
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	file, err := os.Create(filepath.Join(docs, "benchmarks", name+".svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := picture.Write(file, p, 18*vg.Centimeter, 9*vg.Centimeter); err != nil {
		t.Fatal(err)
	}
}

// thousands writes a number with a comma between its thousands.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
