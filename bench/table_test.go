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
		{showRatio(spread{1.5, 0.987, 12.34}), "1.50 (0.99 – 12.3)"},
		{showRatio(spread{math.Inf(1), 0, 0}), missing},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
