package core

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Describe says in words how a key stands with some limits, of which there must be at
// least one: a line for each, such as
//
//	leaky:10:1/s: 7 of 10, next drip in 320 ms
//
// 7 of 10 are used. It charges nothing and leaves no trace; it is one round trip.
func (l *Limiter) Describe(ctx context.Context, key string, limits ...Limit) (string, error) {
	checks := make([]Check, len(limits))
	for i, limit := range limits {
		checks[i] = checkOf(key, limit, 0)
	}
	decisions, err := l.PeekAll(ctx, checks...)
	if err != nil {
		return "", err
	}
	lines := make([]string, len(limits))
	for i := range decisions {
		lines[i] = limits[i].Name() + ": " + decisions[i].Describe()
	}
	return strings.Join(lines, "\n"), nil
}

// Describe says in words what a Decision tells: "7 of 10, next drip in 320 ms", when 7
// of 10 are used.
func (d Decision) Describe() string {
	text := fmt.Sprintf("%d of %d", d.Limit.Capacity()-d.Remaining, d.Limit.Capacity())
	if d.NextAfter > 0 {
		text += ", " + d.Limit.spec.Algorithm.Next() + " in " + inWords(d.NextAfter)
	}
	return text
}

// inWords writes a time as people say it: to the millisecond below a second, to the
// tenth of a second below a minute, then as a Duration does, all rounded up.
func inWords(d time.Duration) string {
	switch {
	case d <= 999*time.Millisecond:
		return fmt.Sprintf("%d ms", exact.DivideUp(int64(d), int64(time.Millisecond)))
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", float64(exact.DivideUp(int64(d), int64(100*time.Millisecond)))/10)
	default:
		return (time.Duration(exact.DivideUp(int64(d), int64(time.Second))) * time.Second).String()
	}
}
