package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
	"github.com/weir-go/ratelimit/cmd/weir/internal/standing"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/policies"
)

const exitChanged = 7 // something changes, and -exit-code asks for it

const planHelp = `Says what changes from one file of policies to another: what is added, removed, renamed and changed, and what becomes of what keys have used.
One of the two may be "-", standard input.

With -redis, or REDIS_URL, it also says who would be denied now under the new numbers of limits that keep what was used. It charges nothing, and
reads the names of all keys in the database.

With -log, it replays access logs through both files, as weir simulate does, and says whom each would have denied.

   git show main:limits.yaml | weir plan - limits.yaml

` + storeHelp + `

Exit codes:
   0  nothing changes, or -exit-code is not given
   1  a file or the store could not be read
   2  the command line makes no sense
   3  the logs have no request to go by
   4  more lines of a log could not be read than -max-skipped allows
   5  a file makes no sense
   7  something changes, and -exit-code is given`

// Plan is the output of weir plan as JSON.
type Plan struct {
	Changes policies.Changes `json:"changes"`
	// Now is how keys stand under the limits that change and keep their state. It is nil if no store was asked.
	Now []standing.Effect `json:"now,omitempty"`
	// Log counts the requests of a log that both files would have denied. It is nil if no log was given.
	Log *Replayed `json:"log,omitempty"`
}

// Replayed has the results of two files.
type Replayed struct {
	Was *simulate.Result `json:"was"`
	Now *simulate.Result `json:"now"`
}

func planCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "lists the changes from one file of policies to another", UsageText: "weir plan [options] old.yaml new.yaml",
		Description: planHelp,
		Flags: logFlags(stderr, simulationFlags(storeFlags(
			&cli.StringSliceFlag{Name: "log", Usage: "replay this access `LOG` through both files; repeatable"},
			&cli.BoolFlag{Name: "exit-code", Usage: "exit with 7 if something changes"},
			&cli.IntFlag{Name: "rows", Value: 10, Usage: "list this `NUMBER` of keys of each limit"},
		)...)...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 2 || c.Args().Get(0) == "-" && c.Args().Get(1) == "-" {
				return usage("name two files of policies, the old and the new one: see weir help plan")
			}
			if c.Int("rows") < 1 {
				return usage("-rows %d is less than 1", c.Int("rows"))
			}
			was, invalid := readPolicies(c.Args().Get(0), stdin)
			now, alsoInvalid := readPolicies(c.Args().Get(1), stdin)
			if err := cmp.Or(invalid, alsoInvalid); err != nil {
				return err
			}
			plan := Plan{Changes: append(policies.Changes{}, policies.Between(was, now)...)}
			if c.String("redis") != "" || os.Getenv("REDIS_URL") != "" {
				err := withStore(c, func(limiter *core.Limiter) (err error) {
					plan.Now, err = standing.Compare(ctx, limiter, plan.Changes, c.Int("rows"))
					return err
				})
				if err != nil {
					return err
				}
			}
			if logs := c.StringSlice("log"); len(logs) > 0 {
				replayed, err := replayLogs(ctx, c, logs, stdin, stderr, was, now)
				if err != nil {
					return err
				}
				plan.Log = &Replayed{replayed[0], replayed[1]}
			}
			write := writePlan
			if c.Bool("json") {
				write = func(w io.Writer, plan *Plan) error { return writeJSON(w, plan) }
			}
			err := write(stdout, &plan)
			if err == nil && c.Bool("exit-code") && len(plan.Changes) > 0 {
				err = exitError{errors.New(plan.Changes.Summary()), exitChanged}
			}
			return err
		},
	}
}

// writePlan writes a plan in words.
func writePlan(w io.Writer, plan *Plan) error {
	var b strings.Builder
	for i := range plan.Changes {
		fmt.Fprintln(&b, &plan.Changes[i])
		for _, line := range plan.Changes[i].Says {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	for i := range plan.Now {
		b.WriteString("\n" + inNumbers(&plan.Now[i]))
	}
	if plan.Log != nil {
		b.WriteString("\n" + plan.Log.inWords())
	}
	if len(plan.Changes) > 0 || plan.Log != nil {
		b.WriteByte('\n')
	}
	fmt.Fprintln(&b, plan.Changes.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// inNumbers says how keys stand under a limit that changes.
func inNumbers(e *standing.Effect) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Now, of %s under %s, the old numbers deny %d and the new ones %d: %d newly denied, %d newly admitted.\n",
		counted(e.Keys, "key", "keys"), e.Now, e.DeniedWas, e.DeniedNow, e.Begin, e.End)
	if e.Plan {
		b.WriteString("Redis does not know the plans of keys: these are the keys of all plans.\n")
	}
	if len(e.Denied) == 0 {
		return b.String()
	}
	rows := make([][]string, len(e.Denied))
	for i, k := range e.Denied {
		rows[i] = []string{"    " + printable(k.Key), fmt.Sprintf("%d of %d", k.Used, k.Capacity), "would be denied for " + admin.DescribeTime(k.RetryAfter)}
	}
	_ = writeTable(&b, []string{"    KEY", "USED", "A REQUEST"}, rows) // a Builder never fails
	return b.String()
}

// inWords compares the results of two files.
func (r *Replayed) inWords() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Of %s in the log, the old file would have denied %d (%s), and the new one %d (%s).\n",
		counted(int(r.Was.Requests), "request", "requests"),
		r.Was.Denied, shareOf(r.Was.Denied, r.Was.Requests), r.Now.Denied, shareOf(r.Now.Denied, r.Now.Requests))
	type identity struct {
		name   string
		shadow bool
	}
	var order []identity
	denied := make(map[identity]*[4]string)
	for side, limits := range [][]simulate.Limit{r.Was.Limits, r.Now.Limits} {
		for _, l := range limits {
			id := identity{l.Name, l.Shadow}
			if denied[id] == nil {
				denied[id] = &[4]string{"–", "–", "–", "–"}
				order = append(order, id)
			}
			denied[id][2*side], denied[id][2*side+1] = strconv.FormatUint(l.Denied, 10), strconv.Itoa(l.DeniedKeys)
		}
	}
	rows := make([][]string, len(order))
	for i, id := range order {
		rows[i] = append([]string{"    " + printable(shadowed(id.name, id.shadow))}, denied[id][:]...)
	}
	if len(rows) > 0 {
		_ = writeTable(&b, []string{"    LIMIT", "DENIED BEFORE", "KEYS", "DENIED NOW", "KEYS"}, rows) // a Builder never fails
	}
	for _, note := range r.Now.AllNotes() {
		b.WriteString("    " + note + "\n")
	}
	return b.String()
}
