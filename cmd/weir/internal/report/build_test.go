//go:build !race

// Pages are written by one goroutine: make test runs it without the race detector, which takes ten times as long.

package report

import (
	"math"
	"testing"
	"time"
)

func TestUpTo(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want float64
	}{{0, 1, 0.95}, {0, 7, 0.348}, {0, 30, 0.095}, {1, 7, 0.521}, {7, 7, 1}, {0, 0, 1}} {
		if got := upTo(c.k, c.n); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%d of %d: up to %.4f, want %.3f", c.k, c.n, got, c.want)
		}
	}
}

func TestInterval(t *testing.T) {
	days := []Day{{Requests: 100, Denied: []uint64{0}}, {Requests: 100, Denied: []uint64{50}}, {Requests: 100, Denied: []uint64{10}}}
	got := interval(days, 0)
	if got == nil || got[0] < 0 || got[0] > 0.2 || got[1] < 0.2 || got[1] > 0.5 || *got != *interval(days, 0) {
		t.Errorf("the interval is %v", got)
	}
	if interval(days[:1], 0) != nil {
		t.Error("one day has an interval")
	}
}

func TestRhythm(t *testing.T) {
	var even, one [24]uint64
	for i := range even {
		even[i] = 7
	}
	one[3] = 9
	if a, b := rhythm(even), rhythm(one); a > 1e-9 || b != 1 {
		t.Errorf("even %f, one hour %f", a, b)
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 800 * time.Millisecond: "800 ms", 90 * time.Second: "1 min 30 s", time.Hour: "1 h", 26 * time.Hour: "1 d 2 h", 1500 * time.Millisecond: "1 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0 %", 0.00001: "< 0.01 %", 0.0012: "0.12 %", 0.029: "2.9 %", 0.44: "44 %", 0.9999: "100.0 %", 1: "100 %"} {
		if got := percent(f); got != want {
			t.Errorf("%f is %q, want %q", f, got, want)
		}
	}
	if got := count("1234567") + count("123") + plural(1, "key") + plural(1000, "key"); got != "1,234,5671231 key1,000 keys" {
		t.Error(got)
	}
}
