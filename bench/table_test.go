package main

import (
	"math"
	"testing"
)

func TestFiguresAreWrittenWithThreeDigits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{showRate(123_456), "123,000"},
		{showRate(9_876), "9,880"},
		{showRate(12.4), "12"},
		{showRate(math.NaN()), missing},
		{showTime(123e-9), "123 ns"},
		{showTime(1.234e-6), "1.23 µs"},
		{showTime(0.0456), "45.6 ms"},
		{showTime(2.5), "2500 ms"},
		{showTime(math.Inf(1)), missing},
		{showCount(1.005), "1.00"},
		{showCount(-0.01), "0.00"},
		{showCount(math.NaN()), missing},
		{showShare(0), "0"},
		{showShare(0.841), "84.1 %"},
		{showBytes(135.7), "136 B"},
		{showBytes(0), missing},
		{showRatio(spread{1.5, 1.2, 1.75}), "1.50 (1.20 – 1.75)"},
		{showRatio(spread{1.5, 1.2, 1.81}), unstable},
		{showMedian(perSecond, spread{120, 100, 150}, showRate), "120"},
		{showMedian(perSecond, spread{120, 100, 151}, showRate), unstable},
		{showMedian(allocationsEach, spread{0.01, 0, 0.04}, showCount), "0.01"},
		{showMedian(allocationsEach, spread{0.05, 0, 0.1}, showCount), unstable},
		{showMedian(perSecond, spreadOf(nil), showRate), missing},
		{showRatio(spread{math.Inf(1), 0, 0}), missing},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// What failed is counted over all rounds, and none of it is lost in a median.
func TestSharesAreThoseOfAllRounds(t *testing.T) {
	failed := share("failed open", func(s sample) int64 { return s.failedOpen })
	e := &entry{samples: []sample{{tally: tally{checks: 60}}, {tally: tally{checks: 60}}, {tally: tally{checks: 70, errors: 10}, failedOpen: 5}}}
	if got := failed.cell(e, nil); got != "2.50 %" {
		t.Errorf("%s of 200 calls, of which 5 failed open", got)
	}
	if e.silent = true; failed.cell(e, nil) != "not told" {
		t.Error("a contender that tells nobody has a share")
	}
}
