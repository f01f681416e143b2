package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/busiest"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const peekHelp = `Says how keys stand: what they have used of a limit, and whether a request that costs one would pass now. It charges nothing.

A key is the caller's key, such as ip:203.0.113.9: "weir top" lists those that there are. Without -limit it is peeked at under all limits that
Redis has a state of, which reads the names of all keys in the database. The numbers of a limit with a name of its own are not in Redis: give
the file of policies that has them by -policies, or such a limit by -limit. Of a limit that depends on the plan, it says how the key would
stand in each plan of the file.

` + storeHelp + "\n\n" + storeExitCodes

// ofLibrary begins the names of limits that the library makes for itself. No other limit may have such a name.
const ofLibrary = "weir-"

// howToKnow says how to have the numbers of a limit that Redis knows by its name alone, or what a limit of the library is.
func howToKnow(limit string) string {
	switch {
	case strings.HasPrefix(limit, ofLibrary+"leased:"):
		return "units that leases remember (docs/leases.md)"
	case strings.HasPrefix(limit, ofLibrary):
		return "for how long those that wait are held back"
	}
	return "give its numbers by -policies or -limit"
}

// Standing is how a key stands under a limit.
type Standing struct {
	Key string `json:"key"`
	// Limit is the limit, or its name alone if its numbers are not known. Then there are no numbers.
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	Shadow    bool   `json:"shadow,omitempty"`
	// Plan is the plan that has these numbers, if the limit depends on it. Redis does not know which one the key has.
	Plan string `json:"plan,omitempty"`

	Numbers *Numbers `json:"numbers,omitempty"`
}

// Numbers are those of a decision. Times are in seconds; one that is null is never.
type Numbers struct {
	Capacity   int      `json:"capacity"`
	Used       int      `json:"used"`
	Remaining  int      `json:"remaining"`
	Allowed    bool     `json:"allowed"`
	RetryAfter *float64 `json:"retry_after"`
	NextAfter  *float64 `json:"next_after"`
	ResetAfter *float64 `json:"reset_after"`

	decision core.Decision
}

func peekCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "peek", Usage: "says how keys stand", UsageText: "weir peek [options] key…", Description: peekHelp,
		Flags: storeFlags(limitFlag(), policiesFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			limits, err := parseLimits(c.StringSlice("limit"))
			if err != nil {
				return err
			}
			named, err := readNamed(c, stdin)
			if err != nil {
				return err
			}
			if !c.Args().Present() {
				return usage("name a key: see weir help peek")
			}
			return withStore(c, func(limiter *core.Limiter) error {
				standings := []Standing{}
				for _, key := range c.Args().Slice() {
					of, err := standingsOf(ctx, limiter, key, limits, named)
					if err != nil {
						return err
					}
					standings = append(standings, of...)
				}
				if c.Bool("json") {
					return writeJSON(stdout, standings)
				}
				return writeStandings(stdout, standings)
			})
		},
	}
}

// standingsOf returns how a key stands under limits, or, if there are none, under all that the store has a state of. Of limits that have a
// name, named has the numbers. Under a limit that depends on the plan, it returns how the key would stand in each plan.
func standingsOf(ctx context.Context, limiter *core.Limiter, key string, limits []core.Limit, named namedLimits) ([]Standing, error) {
	if len(limits) > 0 {
		checks := make([]core.Check, len(limits))
		for i, limit := range limits {
			checks[i] = core.Check{Key: key, Limit: limit}
		}
		return peekAll(ctx, limiter, checks)
	}
	known := busiest.NewKnown(named.limits...)
	entries, err := entriesOf(ctx, limiter, key)
	if err != nil {
		return nil, err
	}
	var standings []Standing
	var checks []core.Check
	for _, entry := range entries {
		if limit, ok := known.LimitOf(entry); ok {
			checks = append(checks, core.Check{Key: key, Limit: limit, Shadow: entry.Shadow})
			continue
		}
		of := named.plansOf(entry)
		if len(of) == 0 {
			standings = append(standings, Standing{Key: key, Limit: entry.Limit, Algorithm: entry.Algorithm, Shadow: entry.Shadow})
		}
		for _, p := range of { // each by itself, since one call takes one number of a limit
			peeked, err := peekAll(ctx, limiter, []core.Check{{Key: key, Limit: p.limit, Shadow: entry.Shadow}})
			if err != nil {
				return nil, err
			}
			peeked[0].Plan = p.plan
			standings = append(standings, peeked...)
		}
	}
	peeked, err := peekAll(ctx, limiter, checks)
	return append(peeked, standings...), err
}

func peekAll(ctx context.Context, limiter *core.Limiter, checks []core.Check) ([]Standing, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	decisions, err := limiter.PeekAll(ctx, checks...)
	if err != nil {
		return nil, err
	}
	standings := make([]Standing, len(checks))
	for i, check := range checks {
		standings[i] = standingOf(check.Key, check.Shadow, decisions[i])
	}
	return standings, nil
}

func standingOf(key string, shadow bool, d core.Decision) Standing {
	capacity := d.Limit.Capacity()
	return Standing{Key: key, Limit: d.Limit.String(), Algorithm: d.Limit.Algorithm(), Shadow: shadow, Numbers: &Numbers{
		Capacity: capacity, Used: capacity - d.Remaining, Remaining: d.Remaining, Allowed: d.Allowed,
		RetryAfter: seconds(d.RetryAfter), NextAfter: seconds(d.NextAfter), ResetAfter: seconds(d.ResetAfter), decision: d,
	}}
}

func writeStandings(w io.Writer, standings []Standing) error {
	if len(standings) == 0 {
		_, err := fmt.Fprintln(w, "nothing is used: Redis has no state of this under any limit")
		return err
	}
	rows := make([][]string, len(standings))
	for i, s := range standings {
		limit := shadowed(s.Limit, s.Shadow)
		if s.Plan != "" {
			limit += " (plan " + s.Plan + ")"
		}
		rows[i] = []string{printable(s.Key), printable(limit), "?", s.Algorithm + ": " + howToKnow(s.Limit)}
		if n := s.Numbers; n != nil {
			rows[i][2], rows[i][3] = admin.DescribeDecision(n.decision), verdict(n.decision)
		}
	}
	return writeTable(w, []string{"KEY", "LIMIT", "USED", "A REQUEST NOW"}, rows)
}

// shadowed returns the name of a limit, with a mark for the state of shadow checks.
func shadowed(limit string, shadow bool) string {
	if shadow {
		return limit + " (shadow)"
	}
	return limit
}

// verdict says how a request is answered.
func verdict(d core.Decision) string {
	switch {
	case d.Allowed:
		return "passes"
	case d.RetryAfter == core.Never && d.Limit != nil && d.Limit.Algorithm() == core.Balance().Algorithm():
		return "is denied until it is topped up"
	case d.RetryAfter == core.Never:
		return "never passes: it needs more than the limit has"
	}
	return "is denied for " + admin.DescribeTime(d.RetryAfter)
}
