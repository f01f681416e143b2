package descriptors

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Unit is the time for which requests are counted.
type Unit string

// The units. A month has 30 days and a year 365, unless the limit has a time zone.
const (
	Second Unit = "SECOND"
	Minute Unit = "MINUTE"
	Hour   Unit = "HOUR"
	Day    Unit = "DAY"
	Week   Unit = "WEEK"
	Month  Unit = "MONTH"
	Year   Unit = "YEAR"
)

var lengths = map[Unit]time.Duration{
	Second: time.Second, Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour, Week: 7 * 24 * time.Hour, Month: 30 * 24 * time.Hour,
	Year: 365 * 24 * time.Hour,
}

// Length returns how long a unit is, or 0 if it is none.
func (u Unit) Length() time.Duration { return lengths[u] }

// Limit is the limit of a descriptor.
type Limit struct {
	// Counts is the limit that decides. It is the zero Quota if nothing is counted: if Unlimited, and if RequestsPerUnit is 0, which no request passes.
	Counts core.Quota
	// Places is the limit that decides in place of Counts, if it is one of how many requests there are at once.
	Places core.Places
	// RequestsPerUnit and Unit are told to the proxy.
	RequestsPerUnit uint32
	Unit            Unit
	// Unlimited says that all requests pass.
	Unlimited bool
	// Name is the limit's name, and Replaces has the names of limits that do not count in a request that meets this one.
	Name     string
	Replaces []string
	// Shadow says that the limit is told, and denies nothing.
	Shadow bool
	// Quota says that the limit denies a request only if all its limits with Quota do.
	Quota bool
	// Metadata is told to the proxy when the limit is not exceeded.
	Metadata map[string]any

	path      string
	algorithm string
	detailed  bool // all values of a request are in the name of its metrics
	byValue   bool // the name of its metrics depends on the request
}

// Plain reports whether the limit is one of the reference's: a number of requests in each unit of its calendar, without debt.
func (l *Limit) Plain() bool { return l.algorithm == "" && !l.Owes() }

// Owes reports whether the limit has debt: hits for which it has no room are denied, and charged all the same.
func (l *Limit) Owes() bool { return l.Counts.Debt() > 0 }

// Dated reports whether the limit counts in windows of a calendar.
func (l *Limit) Dated() bool { return l.algorithm == "" }

// Holds reports whether requests hold places of the limit until they give them back.
func (l *Limit) Holds() bool { return l.Places != core.Places{} }

// Of returns the limit that decides: Counts or Places.
func (l *Limit) Of() core.Limit {
	if l.Holds() {
		return l.Places
	}
	return l.Counts
}

// own returns the text of the limit that decides, or "" if the unit and the number of requests say all of it: it counts as the reference does, or not at all.
func (l *Limit) own() string {
	switch {
	case l.Unlimited || l.RequestsPerUnit == 0:
		return ""
	case l.algorithm != "" || l.Owes() || !strings.Contains(l.Counts.String(), "every"):
		return l.Of().String()
	}
	return "" // a calendar counted from 1970
}

// Describe puts the limit into words.
func (l *Limit) Describe() string {
	var parts []string
	switch unit := strings.ToLower(string(l.Unit)); {
	case l.Unlimited:
		parts = append(parts, "unlimited")
	case l.RequestsPerUnit == 0:
		parts = append(parts, "no request passes")
	case l.Holds():
		parts = append(parts, fmt.Sprintf("%d at once", l.RequestsPerUnit))
	default:
		parts = append(parts, fmt.Sprintf("%d per %s", l.RequestsPerUnit, unit))
	}
	if text := l.own(); text != "" {
		parts = append(parts, text)
	}
	if l.Name != "" {
		parts = append(parts, fmt.Sprintf("named %q", l.Name))
	}
	if len(l.Replaces) > 0 {
		parts = append(parts, fmt.Sprintf("in place of %q", l.Replaces))
	}
	if l.Shadow {
		parts = append(parts, "a shadow, which denies no request")
	}
	if l.Quota {
		parts = append(parts, "a quota, which denies together with all others")
	}
	return strings.Join(parts, "; ")
}

// Override returns the limit that a request brings for a descriptor of its own.
func Override(requestsPerUnit uint32, unit Unit) (*Limit, error) {
	if unit.Length() == 0 {
		return nil, errors.New("the limit of a descriptor has no unit")
	}
	l := &Limit{RequestsPerUnit: requestsPerUnit, Unit: unit}
	if requestsPerUnit == 0 {
		return l, nil
	}
	l.Counts = calendar(int(requestsPerUnit), core.Every(unit.Length()), unit)
	return l, l.Counts.Validate()
}

// Counter returns a limit that in practice is never full: it counts the hits of each window, as the reference does. Below Counting, all are counted.
func Counter(unit Unit) core.Quota {
	return core.Calendar(Counting, core.Every(unit.Length())).Named("count-per-" + strings.ToLower(string(unit)))
}

// Counting is how far a [Counter] counts.
const Counting = 1 << 52

// calendar returns a limit of n in each window. Its name leaves out the numbers, so that what was used stays when they change.
func calendar(n int, period core.Period, unit Unit) core.Quota {
	return core.Calendar(n, period).Named("per-" + strings.ToLower(string(unit)))
}

// algorithms make limits of n in a unit, in place of windows of a calendar.
var algorithms = map[string]func(n, burst int, unit time.Duration) core.Quota{
	"leaky":          func(n, burst int, unit time.Duration) core.Quota { return core.Leaky(burst, core.Per(n, unit)) },
	"token_bucket":   func(n, burst int, unit time.Duration) core.Quota { return core.TokenBucket(burst, core.Per(n, unit)) },
	"gcra":           func(n, burst int, unit time.Duration) core.Quota { return core.GCRA(burst, core.Per(n, unit)) },
	"sliding_window": func(n, _ int, unit time.Duration) core.Quota { return core.SlidingWindow(n, unit) },
	"sliding_log":    func(n, _ int, unit time.Duration) core.Quota { return core.SlidingLog(n, unit) },
}

// buckets are the algorithms that have a burst.
var buckets = []string{"gcra", "leaky", "token_bucket"}

// zoned returns the windows of a calendar in a time zone. Weeks begin on Monday.
func zoned(unit Unit, zone string) (core.Period, error) {
	switch unit {
	case Day:
		return core.Daily(zone), nil
	case Week:
		return core.Weekly(zone, time.Monday), nil
	case Month:
		return core.Monthly(zone), nil
	case Year:
		return core.Yearly(zone, time.January), nil
	default:
		return core.Period{}, fmt.Errorf("time_zone is for day, week, month and year, and not for %s", strings.ToLower(string(unit)))
	}
}

// numbers are those of a rate_limit in a file.
type numbers struct {
	requests  uint32
	unit      Unit
	algorithm string
	burst     uint32
	hasBurst  bool
	zone      string
	hasZone   bool
	lease     string
	debt      string
}

// concurrent is the algorithm of places.
const concurrent = "concurrent"

// places returns the limit of places of some numbers.
func (n *numbers) places() (core.Places, error) {
	lease := n.unit.Length()
	if n.lease != "" {
		var err error
		if lease, err = time.ParseDuration(n.lease); err != nil {
			return core.Places{}, fmt.Errorf("the lease %q is no time, such as 90s", n.lease)
		}
	}
	switch {
	case n.hasBurst:
		return core.Places{}, fmt.Errorf("burst is for the algorithms %s", strings.Join(buckets, ", "))
	case n.hasZone:
		return core.Places{}, errors.New("time_zone is for limits without an algorithm, which count in windows of a calendar")
	case n.debt != "":
		return core.Places{}, errors.New("debt is for what is counted over time, and not for the algorithm concurrent")
	}
	places := core.Concurrent(int(max(1, n.requests)), lease).Named("at-once")
	if err := places.Validate(); err != nil {
		return core.Places{}, errors.New(strings.TrimPrefix(err.Error(), "core: "))
	}
	if n.requests == 0 {
		return core.Places{}, nil
	}
	return places, nil
}

// quota returns the limit of some numbers.
func (n *numbers) quota() (core.Quota, error) {
	if n.lease != "" {
		return core.Quota{}, errors.New("lease is for the algorithm concurrent")
	}
	if n.hasBurst && !slices.Contains(buckets, n.algorithm) {
		return core.Quota{}, fmt.Errorf("burst is for the algorithms %s", strings.Join(buckets, ", "))
	}
	if n.hasZone && n.algorithm != "" {
		return core.Quota{}, errors.New("time_zone is for limits without an algorithm, which count in windows of a calendar")
	}
	requests, burst := int(n.requests), int(n.requests)
	if n.hasBurst {
		burst = int(n.burst)
	}
	var q core.Quota
	switch {
	case n.hasZone:
		period, err := zoned(n.unit, n.zone)
		if err != nil {
			return core.Quota{}, err
		}
		q = calendar(max(1, requests), period, n.unit)
	case n.algorithm == "":
		q = calendar(max(1, requests), core.Every(n.unit.Length()), n.unit)
	default:
		q = algorithms[n.algorithm](max(1, requests), max(1, burst), n.unit.Length()).Named("per-" + strings.ToLower(string(n.unit)))
	}
	debt, err := n.mostDebt()
	if err != nil {
		return core.Quota{}, err
	}
	q = q.WithDebt(debt)
	if err := q.Validate(); err != nil {
		return core.Quota{}, errors.New(strings.TrimPrefix(err.Error(), "core: "))
	}
	if n.hasBurst && n.burst == 0 {
		return core.Quota{}, errors.New("a burst of 0 lets nothing pass: leave it out, or write requests_per_unit: 0")
	}
	if requests == 0 {
		return core.Quota{}, nil
	}
	return q, nil
}

// mostDebt returns how much debt the limit may have.
func (n *numbers) mostDebt() (int, error) {
	switch n.debt {
	case "":
		return 0, nil
	case "unlimited":
		return math.MaxInt, nil
	}
	debt, err := strconv.ParseUint(strings.ReplaceAll(n.debt, "_", ""), 0, 32)
	if err != nil {
		return 0, fmt.Errorf("the debt %q is neither a whole number from 0 to %d nor unlimited", n.debt, uint32(math.MaxUint32))
	}
	return int(debt), nil
}

// parseUnit returns a unit by its name, in any case.
func parseUnit(text string) (Unit, bool) {
	u := Unit(strings.ToUpper(text))
	return u, u.Length() > 0
}

// Window returns the time until the end of a window of the reference's calendar: more than 0, and at most the length of the unit.
func (u Unit) Window(now time.Time) time.Duration {
	length := u.Length()
	if length == 0 {
		return 0
	}
	return length - time.Duration(now.Unix()%int64(length/time.Second))*time.Second - time.Duration(now.Nanosecond())
}
