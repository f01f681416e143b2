package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/busiest"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const (
	defaultStore = "redis://localhost:6379"

	storeHelp = `The URL is one that core.Open takes, and -prefix is that of core.WithPrefix. A URL with a password belongs in REDIS_URL: everybody on
the machine can read the flags of a process.`

	storeExitCodes = `Exit codes:
   0  it is done
   1  Redis could not be asked, or refused
   2  the command line makes no sense`
)

// storeFlags returns the flags of every command that asks a store, and others.
func storeFlags(others ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "redis", Usage: "the `URL` of the store; by default REDIS_URL, or else " + defaultStore},
		&cli.StringFlag{Name: "prefix", Usage: "what every key in Redis starts with, if your program says core.WithPrefix"},
		&cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "how long Redis may take for each `CALL`"},
		&cli.BoolFlag{Name: "json", Usage: "write JSON to standard output"},
	}, others...)
}

// withStore does something with a limiter on the store that the flags name.
func withStore(c *cli.Command, do func(*core.Limiter) error) error {
	return withBudget(c, c.Duration("timeout"), do)
}

// withBudget calls a function with such a limiter. Its calls have the given budget.
func withBudget(c *cli.Command, budget time.Duration, do func(*core.Limiter) error) (err error) {
	limiter, err := openStore(c, budget)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limiter.Close()) }()
	return do(limiter)
}

func openStore(c *cli.Command, budget time.Duration) (*core.Limiter, error) {
	url := cmp.Or(c.String("redis"), os.Getenv("REDIS_URL"), defaultStore)
	if strings.HasPrefix(url, "memory:") {
		return nil, usage("the store memory: is empty in every new program: name a Redis")
	}
	if c.Duration("timeout") <= 0 {
		return nil, usage("-timeout %v is not positive", c.Duration("timeout"))
	}
	options := []core.Option{core.WithBudget(budget)}
	if prefix := c.String("prefix"); prefix != "" {
		if err := core.ValidatePrefix(prefix); err != nil {
			return nil, usage("-prefix: %w", err)
		}
		options = append(options, core.WithPrefix(prefix))
	}
	limiter, err := core.Open(url, options...)
	if err != nil {
		return nil, usage("%w", err)
	}
	return limiter, nil
}

// limitFlag is the flag of commands that are about limits.
func limitFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name: "limit", Config: cli.StringConfig{TrimSpace: true},
		Usage: "a `LIMIT` as core.ParseLimit reads it, such as \"leaky 10, 1/s\" or \"plan: sliding-window 1000, 1d\"; repeatable",
	}
}

func parseLimits(texts []string) ([]core.Limit, error) {
	limits := make([]core.Limit, len(texts))
	for i, text := range texts {
		var err error
		if limits[i], err = core.ParseLimit(text); err != nil {
			return nil, usage("-limit: %w", err)
		}
	}
	return limits, nil
}

// policiesFlag is the flag of commands that show limits: a file of policies has their numbers.
func policiesFlag() cli.Flag {
	return &cli.StringFlag{Name: "policies", Usage: "a `FILE` of policies: the numbers of the limits that have a name"}
}

// namedLimits are the limits that have a name in the file that -policies names.
type namedLimits struct {
	limits []core.Limit
	plans  []planned // by the name of the limit, then by the plan
}

// planned is the limit of a plan. Redis does not know which plan a key has.
type planned struct {
	limit core.Limit
	plan  string
}

func readNamed(c *cli.Command, stdin io.Reader) (n namedLimits, err error) {
	name := c.String("policies")
	if name == "" {
		return n, nil
	}
	document, err := readPolicies(name, stdin)
	if err != nil {
		return n, err
	}
	for _, limit := range slices.Sorted(maps.Keys(document.Limits)) {
		n.limits = append(n.limits, document.Limits[limit])
	}
	for _, limit := range slices.Sorted(maps.Keys(document.Plans)) {
		for _, plan := range slices.Sorted(maps.Keys(document.Plans[limit])) {
			if of := document.Plans[limit][plan]; of != core.Unlimited {
				n.plans = append(n.plans, planned{of, plan})
			}
		}
	}
	return n, nil
}

// of returns the limits of a plan, and the limits that do not depend on it. A limit without that plan has the numbers of the plan "*".
func (n namedLimits) of(plan string) []core.Limit {
	limits := slices.Clone(n.limits)
	for _, name := range []string{"*", plan} { // of several with one name the last counts
		for _, p := range n.plans {
			if p.plan == name {
				limits = append(limits, p.limit)
			}
		}
	}
	return limits
}

// plansOf returns the limits of all plans that share the state of an entry.
func (n namedLimits) plansOf(entry admin.Entry) (all []planned) {
	for _, p := range n.plans {
		if _, same := busiest.NewKnown(p.limit).LimitOf(entry); same {
			all = append(all, p)
		}
	}
	return all
}

// entriesOf returns the states of a key in a store, under all limits.
func entriesOf(ctx context.Context, limiter *core.Limiter, key string) (found []admin.Entry, err error) {
	seen := make(map[admin.Entry]bool)
	for cursor := ""; ; {
		page, next, err := admin.List(ctx, limiter, key, cursor)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			if entry.Key == key && !seen[entry] {
				seen[entry] = true
				found = append(found, entry)
			}
		}
		if cursor = next; cursor == "" {
			return found, nil
		}
	}
}

// seconds is a time as JSON has it, to the microsecond; nil is never.
func seconds(d time.Duration) *float64 {
	if d == core.Never {
		return nil
	}
	s := math.Round(d.Seconds()*1e6) / 1e6
	return &s
}

// printable returns a text that may come from a client as a terminal may show it: quoted, if it has anything else in it than letters and
// signs.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeTable writes rows below a heading, in columns.
func writeTable(w io.Writer, heading []string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}
