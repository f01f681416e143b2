package main

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// comparison is one table of the report, with a plot beside it.
type comparison struct {
	slug    string // tells it apart
	title   string
	text    string
	entries []*entry
	columns []column
	plots   []plotted
}

// column is one column of a comparison's table.
type column struct {
	title  string
	better better
	cell   func(e *entry, all []*entry) string
}

// missing is the cell of a figure that there is not.
const missing = "–"

// unstable is the cell of a figure about which the rounds do not agree.
const unstable = "unstable"

// figure is a column of medians over the rounds.
func figure(title string, of metric, format func(float64) string) column {
	return column{title, of.better, func(e *entry, _ []*entry) string {
		return showMedian(of, spreadOf(each(e.samples, of)), format)
	}}
}

// showMedian writes the median of a figure, if the rounds agree about it.
func showMedian(of metric, s spread, format func(float64) string) string {
	if !math.IsNaN(s.median) && !math.IsInf(s.median, 0) && !s.steady(of.grain) {
		return unstable
	}
	return format(s.median)
}

// share is a column of calls out of all calls of all rounds. A contender that does not count them has none.
func share(title string, of func(sample) int64) column {
	return column{title, less, func(e *entry, _ []*entry) string {
		if e.silent {
			return "not told"
		}
		var some, all int64
		for _, s := range e.samples {
			some, all = some+of(s), all+int64(s.checks+s.errors)
		}
		return showShare(float64(some) / float64(max(1, all)))
	}}
}

// against is a column of ratios to the entry with a name, round by round.
func against(baseline string, of metric) column {
	return column{"× " + baseline, of.better, func(e *entry, all []*entry) string {
		return showRatio(ratio(of, e.samples, samplesOf(all, baseline)))
	}}
}

// costs are the columns with the costs of a check beside time. The process that
// asks is the client of Redis, and may be a server to others.
func costs(process string) []column {
	return []column{
		figure("allocations", allocationsEach, showCount),
		figure(process+" CPU", cpuEach, showTime),
		figure("Redis CPU", redisCPUEach, showTime),
		figure("Redis reads", redisReadsEach, showCount),
		share("errors", func(s sample) int64 { return int64(s.errors) }),
		share("failed open", func(s sample) int64 { return s.failedOpen }),
	}
}

// showRatio writes a ratio with the ends of its middle half, if the rounds agree about it.
func showRatio(s spread) string {
	if math.IsNaN(s.median) || math.IsInf(s.median, 0) {
		return missing
	}
	if !s.steady(0) {
		return unstable
	}
	return fmt.Sprintf("%s (%s – %s)", threeDigits(s.median), threeDigits(s.low), threeDigits(s.high))
}

// showRate writes a number per second.
func showRate(perSecond float64) string {
	if math.IsNaN(perSecond) {
		return missing
	}
	scale := math.Pow(10, max(0, math.Floor(math.Log10(max(1, perSecond)))-2))
	return message.NewPrinter(language.English).Sprintf("%.0f", math.Round(perSecond/scale)*scale)
}

// showTime writes seconds in the unit that suits them.
func showTime(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return missing
	case seconds < time.Microsecond.Seconds():
		return threeDigits(seconds*1e9) + " ns"
	case seconds < time.Millisecond.Seconds():
		return threeDigits(seconds*1e6) + " µs"
	}
	return threeDigits(seconds*1e3) + " ms"
}

// showCount writes a number of things per check.
func showCount(n float64) string {
	if math.IsNaN(n) {
		return missing
	}
	return fmt.Sprintf("%.2f", max(0, n))
}

// showBytes writes bytes per key.
func showBytes(n float64) string {
	if n <= 0 {
		return missing
	}
	return fmt.Sprintf("%.0f B", n)
}

// showMegabytes writes bytes in millions.
func showMegabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }

// showShare writes a part of a whole in percent.
func showShare(part float64) string {
	if part == 0 {
		return "0"
	}
	return threeDigits(part*100) + " %"
}

// threeDigits writes a number with about three digits.
func threeDigits(x float64) string {
	switch size := math.Abs(x); {
	case size >= 100:
		return fmt.Sprintf("%.0f", x)
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
