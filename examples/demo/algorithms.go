package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// algorithm has the texts of the page about one of them.
type algorithm struct {
	Name        string // as in [core.Limit.Algorithm]
	Title       string
	Short       string // the title where there is little room
	About       string // for a reader who does not know it
	Picture     string // describes the picture
	Windowed    bool   // counts in windows, and has no rate
	Constructor string // its name in the packages core, nethttp, gin and echo
}

var algorithms = []algorithm{
	{
		Name: "fixed-window", Title: "Fixed window", Short: "Fixed window", Constructor: "FixedWindow", Windowed: true,
		About: "The first request opens a window, and each takes a slot. When the window closes, all slots are free again, " +
			"so a burst on either side of the boundary lets twice as many pass.",
		Picture: "Slots taken, and the time until the window closes",
	},
	{
		Name: "sliding-log", Title: "Sliding log", Short: "Sliding log", Constructor: "SlidingLog", Windowed: true,
		About: "Remembers when each admitted request came, and admits another as long as the last few seconds hold fewer than " +
			"the limit. Exact at every instant; its memory grows with the limit.",
		Picture: "A dot for each admitted request, moving out of the window",
	},
	{
		Name: "sliding-window", Title: "Sliding counter", Short: "Sliding counter", Constructor: "SlidingWindow", Windowed: true,
		About: "Two counters instead of a log: this window’s requests, and the last one’s, weighted by how much of it the sliding " +
			"window still covers. Almost as exact, and two numbers whatever the limit.",
		Picture: "Two counters, and the window that slides over them",
	},
	{
		Name: "token-bucket", Title: "Token bucket", Short: "Token bucket", Constructor: "TokenBucket",
		About: "Each request takes a token, and tokens come back at a steady rate until the bucket is full. " +
			"Who has saved up may burst; in the long run nobody gets more than the rate.",
		Picture: "Tokens in the bucket, and the next one as it grows",
	},
	{
		Name: "leaky", Title: "Leaky bucket, policing", Short: "Leaky, policing", Constructor: "Leaky",
		About: "Each request pours a cup of water into a bucket that leaks at a steady rate. What would make it overflow " +
			"is refused at once, and adds nothing.",
		Picture: "The water level, and the next cup’s worth leaking out",
	},
	{
		Name: "shaping", Title: "Leaky bucket, shaping", Short: "Leaky, shaping", Constructor: "Shaping",
		About: "A queue in front of a gate that opens at an even pace. Requests are not refused but made to wait their turn, " +
			"really held by the server, until the queue is full.",
		Picture: "Requests waiting their turn at the gate",
	},
	{
		Name: "gcra", Title: "GCRA", Short: "GCRA", Constructor: "GCRA",
		About: "Keeps a single instant: when the next request would arrive if all came evenly. Each one moves it further into the " +
			"future; when that is too far ahead of now, requests are refused.",
		Picture: "The theoretical arrival time, on a line that starts now",
	},
}

// find returns an algorithm's description.
func find(name string) (algorithm, bool) {
	for _, a := range algorithms {
		if a.Name == name {
			return a, true
		}
	}
	return algorithm{}, false
}

// standard is the limit that a card starts with: five at once, five in five seconds.
func (a algorithm) standard() core.Limit {
	limit, err := core.ParseLimit(a.Name + " 5, " + a.StandardPace())
	if err != nil {
		panic(err)
	}
	return limit
}

// StandardPace is the rate or the window of the standard limit.
func (a algorithm) StandardPace() string {
	if a.Windowed {
		return "5s"
	}
	return "1/s"
}

// with returns the algorithm's limit of n events in each period, which for a bucket
// is its capacity and the time in which it recovers.
func (a algorithm) with(n int, period time.Duration) (core.Limit, error) {
	pace := period.String()
	if !a.Windowed {
		pace = core.Per(n, period).String()
	}
	return core.ParseLimit(fmt.Sprintf("%s %d, %s", a.Name, n, pace))
}

// The bounds of the pictures.
const (
	mostCapacity    = 50
	longestRecovery = time.Minute
	shortestPeriod  = 100 * time.Millisecond
)

// fieldError is a reason not to take the value of a field.
type fieldError struct {
	Field string `json:"field"`
	Text  string `json:"error"`
}

func (e *fieldError) Error() string { return e.Text }

// parse returns the limit that a visitor asks for, in the notation of
// [core.ParseLimit].
func (a algorithm) parse(capacity, pace string) (core.Limit, error) {
	capacity, pace = strings.TrimSpace(capacity), strings.TrimSpace(pace)
	if _, err := core.ParseLimit(a.Name + " " + capacity + ", " + a.StandardPace()); err != nil {
		return core.Limit{}, &fieldError{"capacity", fmt.Sprintf("%q is not a whole number from 1 to %d", capacity, mostCapacity)}
	}
	limit, err := core.ParseLimit(a.Name + " " + capacity + ", " + pace)
	if err != nil {
		return core.Limit{}, &fieldError{"pace", strings.TrimPrefix(err.Error(), "core: ")}
	}
	rate := limit.Rate()
	recovery := rate.Period
	if !a.Windowed {
		recovery = timeFor(rate, limit.Capacity())
	}
	switch {
	case limit.Capacity() > mostCapacity:
		return core.Limit{}, &fieldError{"capacity", fmt.Sprintf("the pictures have room for %d, not for %d", mostCapacity, limit.Capacity())}
	case recovery > longestRecovery:
		return core.Limit{}, &fieldError{"pace", fmt.Sprintf("takes %v to recover, and the demo waits no longer than %v", recovery, longestRecovery)}
	case recovery < shortestPeriod:
		return core.Limit{}, &fieldError{"pace", fmt.Sprintf("recovers in %v, which is too quick to see: take at least %v", recovery, shortestPeriod)}
	}
	return limit, nil
}

// timeFor returns the time in which n events pass at a rate, never less.
func timeFor(rate core.Rate, n int) time.Duration {
	whole, rest := n/rate.Events, n%rate.Events
	part := float64(rate.Period) * float64(rest) / float64(rate.Events)
	const most = time.Duration(1) << 53
	if whole > 0 && rate.Period > most/time.Duration(whole) {
		return most
	}
	return time.Duration(whole)*rate.Period + time.Duration(part)
}

// code returns the line of Go that puts a limit in front of a handler.
func (a algorithm) code(limit core.Limit) string {
	pace := durationCode(limit.Rate().Period)
	if rate := limit.Rate(); !a.Windowed {
		switch rate.Period {
		case time.Second:
			pace = fmt.Sprintf("core.PerSecond(%d)", rate.Events)
		case time.Minute:
			pace = fmt.Sprintf("core.PerMinute(%d)", rate.Events)
		default:
			pace = fmt.Sprintf("core.Per(%d, %s)", rate.Events, pace)
		}
	}
	return fmt.Sprintf("ratelimit.%s(limiter, %d, %s)", a.Constructor, limit.Capacity(), pace)
}

// durationCode returns a duration as it is written in Go.
func durationCode(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"}} {
		switch {
		case d == unit.length:
			return unit.name
		case d%unit.length == 0:
			return fmt.Sprintf("%d*%s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d*time.Nanosecond", d)
}
