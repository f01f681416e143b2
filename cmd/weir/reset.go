package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const resetHelp = `Makes keys as good as new: under the limits that -limit names, or, with -all, under all that Redis has a state of. Of a limit with a name
of its own, the numbers do not matter: -limit NAME is enough. What a reset ban keeps out may come back, and who holds places loses them.

-all reads the names of all keys in the database. Shadows, and what leases remember, are left alone. Under a limit that tenants
share, all of its tenants begin anew.

` + storeHelp + "\n\n" + storeExitCodes

// Reset is a key and the limits under which it is as good as new.
type Reset struct {
	Key    string   `json:"key"`
	Limits []string `json:"limits"`
}

func resetCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "reset", Usage: "makes keys as good as new", UsageText: "weir reset -limit LIMIT | -all [options] key…", Description: resetHelp,
		Flags: storeFlags(limitFlag(), &cli.BoolFlag{Name: "all", Usage: "under all limits that Redis has a state of"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			limits, err := limitsToReset(c.StringSlice("limit"))
			if err != nil {
				return err
			}
			if !c.Args().Present() || (len(limits) > 0) == c.Bool("all") {
				return usage("name a key, and either its limits or -all: see weir help reset")
			}
			return withStore(c, func(limiter *core.Limiter) error {
				done := []Reset{}
				for _, key := range c.Args().Slice() {
					of := limits
					if c.Bool("all") {
						if of, err = limitsOf(ctx, limiter, key); err != nil {
							return err
						}
					}
					if len(of) > 0 {
						if err := limiter.Reset(ctx, key, of...); err != nil {
							return err
						}
					}
					reset := Reset{Key: key, Limits: []string{}}
					for _, limit := range of {
						if !slices.Contains(reset.Limits, limit.Name()) {
							reset.Limits = append(reset.Limits, limit.Name())
						}
					}
					done = append(done, reset)
				}
				if c.Bool("json") {
					return writeJSON(stdout, done)
				}
				return writeResets(stdout, done)
			})
		},
	}
}

// limitsToReset returns the limits that -limit names. A name alone is that of a limit of any algorithm.
func limitsToReset(texts []string) ([]core.Limit, error) {
	var limits []core.Limit
	for _, text := range texts {
		if _, isAlgorithm := examples[text]; !isAlgorithm && text != share && core.Leaky(1, core.PerSecond(1)).Named(text).Validate() == nil && text != "" {
			for _, example := range slices.Sorted(maps.Values(examples)) {
				limit, err := core.ParseLimit(text + ": " + example)
				if err != nil {
					return nil, err
				}
				limits = append(limits, limit)
			}
			continue
		}
		parsed, err := parseLimits([]string{text})
		if err != nil {
			return nil, err
		}
		limits = append(limits, parsed...)
	}
	return limits, nil
}

// limitsOf returns the limits under which a store holds a key. Those with names of their own have other numbers.
func limitsOf(ctx context.Context, limiter *core.Limiter, key string) ([]core.Limit, error) {
	entries, err := entriesOf(ctx, limiter, key)
	if err != nil {
		return nil, err
	}
	var limits []core.Limit
	for _, entry := range entries {
		if entry.Shadow || entry.Algorithm == share || strings.HasPrefix(entry.Limit, ofLibrary) {
			continue
		}
		limit, err := limitOf(entry)
		if err != nil {
			return nil, err
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// share is the algorithm of a tenant's share. Its state means nothing once the limit that the tenants share is reset.
const share = "fair-share"

// examples are limits of every other algorithm.
var examples = map[string]string{
	"leaky": "leaky 1, 1/s", "shaping": "shaping 1, 1/s", "token-bucket": "token-bucket 1, 1/s", "gcra": "gcra 1, 1/s",
	"fixed-window": "fixed-window 1, 1s", "sliding-window": "sliding-window 1, 1s", "sliding-log": "sliding-log 1, 1s",
	"calendar": "calendar 1, day UTC", "balance": "balance", "concurrent": "concurrent 1, 1s", "ban": "ban 1, 1s, first 1s, factor 1, longest 1s, forget 0s",
}

// limitOf returns a limit that shares the entry's state.
func limitOf(entry admin.Entry) (core.Limit, error) {
	if limit, ok := entry.ParseLimit(); ok {
		return limit, nil
	}
	limit, err := core.ParseLimit(entry.Limit + ": " + examples[entry.Algorithm])
	if err != nil || !entry.Named {
		return nil, fmt.Errorf("%q has a state under %s, which this version of weir does not know", entry.Key, entry.Limit)
	}
	return limit, nil
}

func writeResets(w io.Writer, done []Reset) error {
	for _, reset := range done {
		if len(reset.Limits) == 0 {
			if _, err := fmt.Fprintf(w, "%s: nothing was used\n", printable(reset.Key)); err != nil {
				return err
			}
		}
		for _, limit := range reset.Limits {
			if _, err := fmt.Fprintf(w, "%s is as good as new under %s\n", printable(reset.Key), printable(limit)); err != nil {
				return err
			}
		}
	}
	return nil
}
