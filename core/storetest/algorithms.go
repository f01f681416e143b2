package storetest

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// algorithm is an algorithm that counts over time, as the laws know it. A new one has a row among algorithms.
type algorithm struct {
	name string
	// limit makes a limit of the algorithm; a window takes its length from the rate.
	limit func(capacity int, rate core.Rate) core.Quota
	// fresh is the model of a key that was never seen.
	fresh state
	// window has the model work with windows, and not with a level that drains at a steady pace.
	window bool
	// owes says that limits of the algorithm can have debt.
	owes bool
}

var algorithms = []algorithm{
	{name: "leaky", limit: core.Leaky, fresh: metered{}, owes: true},
	{name: "shaping", limit: core.Shaping, fresh: scheduled{}},
	{name: "token-bucket", limit: core.TokenBucket, fresh: metered{}, owes: true},
	{name: "gcra", limit: core.GCRA, fresh: scheduled{}, owes: true},
	{name: "fixed-window", limit: windowOf(core.FixedWindow), fresh: fixed{}, window: true, owes: true},
	{name: "sliding-window", limit: windowOf(core.SlidingWindow), fresh: sliding{}, window: true},
	{name: "sliding-log", limit: windowOf(core.SlidingLog), fresh: logged{}, window: true},
	{name: "calendar", limit: seasonal, fresh: dated{}, window: true, owes: true},
}

// windowOf returns a function that makes limits with windows as long as the period of a rate.
func windowOf(limit func(n int, window time.Duration) core.Quota) func(int, core.Rate) core.Quota {
	return func(capacity int, rate core.Rate) core.Quota { return limit(capacity, rate.Period) }
}

// seasonal returns a limit with windows that a calendar cuts about as long as the period of a rate.
func seasonal(capacity int, rate core.Rate) core.Quota {
	return core.Calendar(capacity, core.Every(max(time.Second, rate.Period.Truncate(time.Microsecond))))
}

var (
	everyAlgorithm = namesOf(algorithms)
	// meters are the algorithms with a steady pace.
	meters = namesOf(slices.DeleteFunc(slices.Clone(algorithms), func(a algorithm) bool { return a.window }))
)

func namesOf(algorithms []algorithm) []string {
	names := make([]string, len(algorithms))
	for i := range algorithms {
		names[i] = algorithms[i].name
	}
	return names
}

// except returns the names of all algorithms but some.
func except(these ...string) []string {
	return slices.DeleteFunc(slices.Clone(everyAlgorithm), func(name string) bool { return slices.Contains(these, name) })
}

// algorithmOf returns the algorithm with a name.
func algorithmOf(name string) *algorithm {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name })
	if i < 0 {
		panic("storetest: no algorithm is called " + name)
	}
	return &algorithms[i]
}

// newLimit returns a limit of an algorithm; a window takes its length from rate.
func newLimit(algorithm string, capacity int, rate core.Rate) core.Quota {
	return algorithmOf(algorithm).limit(capacity, rate)
}
