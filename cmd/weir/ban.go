package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

const banHelp = `Bans keys by hand, for a time, in place of a ban that is in force. -ban is the whole ban as core.ParseBan reads it, such as

   logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d

A key is the caller's key, such as ip:203.0.113.9. Nobody who asks with another key is kept out.

` + storeHelp + "\n\n" + storeExitCodes

const liftHelp = `Ends the bans of keys, and forgets their strikes and earlier bans. A key that is not banned is no error. -ban is the whole ban, or the name
of one that has a name of its own.

` + storeHelp + "\n\n" + storeExitCodes

const bansHelp = `Lists who is banned: the keys that start with a prefix, or all. -ban is the whole ban, or the name of one that has a name of its own.
It reads the names of all keys in the database.

` + storeHelp + "\n\n" + storeExitCodes

// Banned is a key that is banned.
type Banned struct {
	Key    string     `json:"key"`
	Hashed bool       `json:"hashed,omitempty"` // the key is known by its hash alone, and its times are not
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"`
	Bans   int        `json:"bans"` // by strikes, which are remembered
	Reason string     `json:"reason,omitempty"`
}

func banFlag() cli.Flag {
	return &cli.StringFlag{Name: "ban", Usage: "the `BAN`, or the name of one"}
}

// parseBan reads the ban that -ban names. A name alone is a ban with other numbers, where those do not matter.
func parseBan(c *cli.Command, nameIsEnough bool) (core.Ban, error) {
	text := strings.TrimSpace(c.String("ban"))
	switch {
	case text == "":
		return core.Ban{}, usage("say which ban by -ban: see weir help %s", c.Name)
	case !strings.ContainsAny(text, " ,") && nameIsEnough:
		ban := core.Ban{Strikes: core.SlidingLog(1, time.Second)}.Named(text)
		if err := ban.Validate(); err != nil {
			return core.Ban{}, usage("-ban: %w", err)
		}
		return ban, nil
	case !strings.ContainsAny(text, " ,"):
		return core.Ban{}, usage("-ban %s is a name alone: a ban by hand takes all of it, such as %q", text,
			text+": ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d")
	}
	ban, err := core.ParseBan(text)
	if err != nil {
		return core.Ban{}, usage("-ban: %w", err)
	}
	return ban, nil
}

func banCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "ban", Usage: "bans keys by hand", UsageText: "weir ban -ban BAN -for TIME [options] key…", Description: banHelp,
		Flags: storeFlags(banFlag(),
			&cli.DurationFlag{Name: "for", Usage: "how long the ban lasts, a `TIME` such as 1h"},
			&cli.StringFlag{Name: "reason", Usage: "why, for those who list the bans: a `TEXT` of up to 200 bytes"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			ban, err := parseBan(c, false)
			if err != nil {
				return err
			}
			if c.Duration("for") <= 0 {
				return usage("say for how long by -for, such as -for 1h")
			}
			return eachKey(c, stdout, func(limiter *core.Limiter, key string) (string, error) {
				if err := limiter.Ban(ctx, key, ban, c.Duration("for"), c.String("reason")); err != nil {
					return "", err
				}
				return "is banned for " + admin.DescribeTime(c.Duration("for")), nil
			})
		},
	}
}

func liftCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "lift", Usage: "ends the bans of keys", UsageText: "weir lift -ban BAN [options] key…", Description: liftHelp,
		Flags: storeFlags(banFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			ban, err := parseBan(c, true)
			if err != nil {
				return err
			}
			return eachKey(c, stdout, func(limiter *core.Limiter, key string) (string, error) {
				left, err := limiter.Banned(ctx, key, ban)
				if err != nil {
					return "", err
				}
				if err := limiter.Lift(ctx, key, ban); err != nil {
					return "", err
				}
				if left == 0 {
					return "was not banned", nil
				}
				return "is banned no more: " + admin.DescribeTime(left) + " were left", nil
			})
		},
	}
}

// Done is the effect of a command on a key.
type Done struct {
	Key  string `json:"key"`
	Done string `json:"done"`
}

// eachKey runs a command on each key that the command line names, and reports the effects.
func eachKey(c *cli.Command, stdout io.Writer, do func(limiter *core.Limiter, key string) (string, error)) error {
	if !c.Args().Present() {
		return usage("name a key: see weir help %s", c.Name)
	}
	return withStore(c, func(limiter *core.Limiter) error {
		done := []Done{}
		for _, key := range c.Args().Slice() {
			what, err := do(limiter, key)
			if err != nil {
				return err
			}
			done = append(done, Done{Key: key, Done: what})
			if !c.Bool("json") {
				_, _ = fmt.Fprintf(stdout, "%s %s\n", printable(key), what)
			}
		}
		if c.Bool("json") {
			return writeJSON(stdout, done)
		}
		return nil
	})
}

func bansCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "bans", Usage: "lists who is banned", UsageText: "weir bans -ban BAN [options] [prefix]", Description: bansHelp,
		Flags: storeFlags(banFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			ban, err := parseBan(c, true)
			if err != nil {
				return err
			}
			if c.Args().Len() > 1 {
				return usage("name one prefix of keys, or none")
			}
			return withStore(c, func(limiter *core.Limiter) error {
				banned, err := allBanned(ctx, limiter, ban, c.Args().First())
				if err != nil {
					return err
				}
				if c.Bool("json") {
					return writeJSON(stdout, banned)
				}
				return writeBanned(stdout, banned)
			})
		},
	}
}

// allBanned returns all keys that start with a prefix and are banned, each once.
func allBanned(ctx context.Context, limiter *core.Limiter, ban core.Ban, prefix string) ([]Banned, error) {
	banned, seen := []Banned{}, make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := admin.Bans(ctx, limiter, ban, prefix, cursor)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			if seen[b.Key] {
				continue
			}
			seen[b.Key] = true
			row := Banned{Key: b.Key, Hashed: b.Hashed, Bans: b.Bans, Reason: b.Reason}
			if !b.Until.IsZero() {
				row.Since, row.Until = &b.Since, &b.Until
			}
			banned = append(banned, row)
		}
		if cursor = next; cursor == "" {
			return banned, nil
		}
	}
}

func writeBanned(w io.Writer, banned []Banned) error {
	if len(banned) == 0 {
		_, err := fmt.Fprintln(w, "nobody is banned")
		return err
	}
	rows := make([][]string, len(banned))
	for i, b := range banned {
		rows[i] = []string{printable(b.Key), "?", "?", strconv.Itoa(b.Bans), printable(b.Reason)}
		if b.Until != nil {
			rows[i][1], rows[i][2] = b.Since.Format(time.DateTime), b.Until.Format(time.DateTime)
		}
	}
	return writeTable(w, []string{"KEY", "SINCE", "UNTIL", "BANS BEFORE", "REASON"}, rows)
}
