package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Describe returns in words the state of a key under some limits, at least one: a line for each, such as
//
//	leaky:10:1/s: 7 of 10, next drip in 320 ms
//
// if 7 of 10 are used. It charges nothing and leaves no trace; it is one round trip. Its errors
// are those of [core.Limiter.PeekAll]. It may be called by many goroutines at once.
func Describe(ctx context.Context, limiter *core.Limiter, key string, limits ...core.Limit) (string, error) {
	checks := make([]core.Check, len(limits))
	for i, limit := range limits {
		checks[i] = core.Check{Key: key, Limit: limit, Mode: core.Look}
	}
	decisions, err := limiter.PeekAll(ctx, checks...)
	if err != nil {
		return "", err
	}
	lines := make([]string, len(limits))
	for i := range decisions {
		lines[i] = limits[i].Name() + ": " + DescribeDecision(decisions[i])
	}
	return strings.Join(lines, "\n"), nil
}

// DescribeDecision returns a decision in words: "7 of 10, next drip in 320 ms", if 7 of 10 are used. For a [core.Ban]
// that is in force it is "banned for 9m30s", and otherwise the number of strikes. For a [core.Balance] it is "480 left".
func DescribeDecision(d core.Decision) string {
	if d.Limit == nil {
		return "0 of 0"
	}
	if _, ban := d.Limit.(core.Bans); ban && d.Remaining == 0 {
		return "banned for " + DescribeTime(d.NextAfter)
	}
	algorithm, _ := exact.AlgorithmNamed(d.Limit.Algorithm())
	if algorithm.Prepaid() {
		return fmt.Sprintf("%d left", d.Remaining)
	}
	text := fmt.Sprintf("%d of %d", d.Limit.Capacity()-d.Remaining, d.Limit.Capacity())
	if d.NextAfter > 0 {
		text += ", " + algorithm.Next() + " in " + DescribeTime(d.NextAfter)
	}
	return text
}

// DescribeTime writes a time as people say it: "320 ms" below a second, "5.4 s" below a minute, then
// "9m30s", and "22d2h" above two days. It rounds up, so that a wait is not told too short. [core.Never] is
// "never". It may be called by many goroutines at once.
func DescribeTime(d time.Duration) string {
	switch {
	case d == core.Never:
		return "never"
	case d <= 999*time.Millisecond:
		return fmt.Sprintf("%d ms", roundUp(d, time.Millisecond).Milliseconds())
	case d <= 59900*time.Millisecond:
		return fmt.Sprintf("%.1f s", roundUp(d, 100*time.Millisecond).Seconds())
	case d > 48*time.Hour:
		d = roundUp(d, time.Hour)
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	default:
		return roundUp(d, time.Second).String()
	}
}

// roundUp returns the shortest time that is a number of units and not shorter than d.
func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }
