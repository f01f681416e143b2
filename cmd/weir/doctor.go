package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
)

// defaultBudget is that of a program that does not say core.WithBudget.
const defaultBudget = 100 * time.Millisecond

// exitProblem says that the doctor has found a problem.
const exitProblem = 3

const doctorHelp = `Examines the Redis that limits live on, and says in plain words what is wrong and what to do about it. No key of a client is charged.

It judges how long Redis takes by the budget of your program: -budget, if that says core.WithBudget. It asks as a client of core.Open
would. A program with a client of its own examines that: doctor.Examine(ctx, limiter).

` + storeHelp + "\n\n" + storeExitCodes + `
   3  it has found a problem`

// Finding is a fault that the doctor has found, or a notice.
type Finding struct {
	Name     string `json:"name"`
	Server   string `json:"server,omitempty"`
	Severity string `json:"severity"`
	Found    string `json:"found"`
	Meaning  string `json:"meaning,omitempty"`
	Advice   string `json:"advice,omitempty"`
}

func doctorCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "examines whether Redis is well set up", UsageText: "weir doctor [options]", Description: doctorHelp,
		Flags: storeFlags(
			&cli.DurationFlag{Name: "budget", Value: defaultBudget, Usage: "the `BUDGET` of your program, if it says core.WithBudget"},
			&cli.StringFlag{Name: "policies", Usage: "a `FILE` of policies: which of them may settle at more than they reserve, under limits without debt"},
			&cli.BoolFlag{Name: "balances", Usage: "clients have paid for balances: Redis has to keep its data"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usage("the doctor takes no arguments: name the store by -redis")
			}
			if c.Duration("budget") <= 0 {
				return usage("-budget %v is not positive", c.Duration("budget"))
			}
			var own doctor.Report
			if name := c.String("policies"); name != "" {
				document, err := readPolicies(name, stdin)
				if err != nil {
					return err
				}
				own = examineDebt(document)
			}
			return withBudget(c, c.Duration("budget"), func(limiter *core.Limiter) error {
				ctx, cancel := context.WithTimeout(ctx, 10*c.Duration("timeout"))
				defer cancel()
				var err error
				examine := doctor.Examine
				if c.Bool("balances") {
					examine = doctor.ExamineBalances
				}
				report := slices.Concat(own, examine(ctx, limiter))
				if c.Bool("json") {
					findings := make([]Finding, len(report))
					for i, f := range report {
						findings[i] = Finding{
							Name: f.Name, Server: f.Server, Severity: string(f.Severity), Found: f.Found, Meaning: f.Meaning, Advice: f.Advice,
						}
					}
					err = writeJSON(stdout, findings)
				} else {
					_, err = fmt.Fprint(stdout, report)
				}
				if report.Err() != nil { // the findings have been written
					return exitError{errors.New("there is a problem"), exitProblem}
				}
				return err
			})
		},
	}
}
