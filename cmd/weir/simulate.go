package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
	"github.com/weir-go/ratelimit/policies"
)

const simulateHelp = `Replays access logs through the policies of a file, and counts the requests that they would have denied. Each line becomes a
request with its method, host, path, address, and the fields of the header that the log has. The guard decides it at its instant, as it would in the
server, and settles it by its status.

A log does not know the users of the program: -name user=json:.user.id says which field of the log is the key "user", and -plan which is the plan.
The fields are ip, header:NAME and json:.path. The report lists the gaps of the log. Clients that are denied may come again or not: a log
does not tell.

` + exitCodes + `
   5  the policies make no sense`

// simulationFlags returns the flags of every command that replays logs through policies, and others.
func simulationFlags(others ...cli.Flag) []cli.Flag {
	return append(others,
		&cli.StringSliceFlag{Name: "name", Usage: "`NAME=FIELD` of the log that a key function of the program returns, as in user=json:.user.id; repeatable"},
		&cli.StringFlag{Name: "plan", Usage: "the `FIELD` of the log that is the plan of a request"},
		&cli.IntFlag{Name: "keys", Value: 1_000_000, Usage: "follow this `NUMBER` of keys of each limit"},
	)
}

func simulateCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "counts the requests that policies would have denied, from access logs",
		UsageText:   "weir simulate [options] limits.yaml access.log…",
		Description: simulateHelp,
		Flags: logFlags(stderr, simulationFlags(
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write a page to this `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON to standard output"},
		)...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return usage("name a file of policies and an access log: see weir help simulate")
			}
			document, err := readPolicies(c.Args().First(), stdin)
			if err != nil {
				return err
			}
			replayed, err := replayLogs(ctx, c, c.Args().Tail(), stdin, stderr, document)
			if err != nil {
				return err
			}
			page := report.Simulation{Policies: called(c.Args().First()), Result: replayed[0]}
			if c.String("out") != "" {
				if err = writePage(c, stderr, page.WriteHTML); err != nil {
					return err
				}
			}
			if c.Bool("json") {
				return writeJSON(stdout, page.Result)
			}
			return writeSimulation(stdout, page.Result)
		},
	}
}

// replayLogs replays logs through each of some documents, and returns their results, in order.
func replayLogs(
	ctx context.Context, c *cli.Command, named []string, stdin io.Reader, stderr io.Writer, documents ...*policies.Document,
) (results []*simulate.Result, err error) {
	if os.Getenv("GOGC") == "" {
		// A heap with few keys is small, and would be collected all the time. Nothing touches this piece of it, which so takes no memory, and
		// has the collector wait for more garbage: as much as the piece has.
		untouched := make([]byte, 128<<20)
		defer runtime.KeepAlive(untouched)
	}
	read, err := newLogs(c, named)
	if err != nil {
		return nil, err
	}
	if c.Int("keys") < 2 {
		return nil, usage("-keys must be at least 2")
	}
	options, values, err := fieldsOf(c)
	if err != nil {
		return nil, err
	}
	read.options.Requests, read.options.Log.Values = true, values
	all := make(simulations, len(documents))
	for i, d := range documents {
		if all[i], err = simulate.New(d, options); err != nil {
			return nil, err
		}
	}
	forget, err := read.open(stdin)
	defer func() { err = errors.Join(err, forget()) }()
	if err != nil {
		return nil, err
	}
	shown := newProgress(stderr, c.Bool("progress"), read.total)
	defer shown.stop()
	summary, err := arrival.Read(ctx, read.files, read.options, shown.reading("which requests policies deny"), all)
	if err = read.usable(summary, err); err != nil {
		return nil, err
	}
	shown.stop()
	if summary.FirstBad != nil {
		_, _ = fmt.Fprintln(stderr, "weir:", read.firstBad(summary))
	}
	for _, one := range all {
		result := one.Result(read.name, read.zone)
		result.Notes = append(result.Notes, read.notesOf(&summary)...)
		results = append(results, result)
	}
	return results, nil
}

// notesOf names all that the logs could not tell.
func (l *logs) notesOf(s *arrival.Summary) (notes []string) {
	if s.Whole > 0 {
		notes = append(notes, capitalized(counted(int(s.Whole), "request has", "requests have"))+
			" a timestamp without a fraction of a second: those of an address in one second were spread evenly over it.")
	}
	if s.Keyless > 0 {
		notes = append(notes, capitalized(counted(int(s.Keyless), "line has no address, and was left out.", "lines have no address, and were left out.")))
	}
	for _, note := range []string{s.Hidden(l.name, nil), s.Outlier(), s.Disorder()} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// simulations replay the same requests.
type simulations []*simulate.Simulation

// Second implements [arrival.Sink].
func (all simulations) Second(arrivals []arrival.Arrival) {
	for _, one := range all {
		one.Second(arrivals)
	}
}

// fieldsOf returns which values of the log the command line gives names to.
func fieldsOf(c *cli.Command) (o simulate.Options, values []accesslog.Key, err error) {
	o = simulate.Options{Names: make(map[string]int), Plan: -1, Keys: c.Int("keys")}
	names, err := pairs(c, "name")
	if err != nil {
		return o, nil, err
	}
	add := func(flag, text string) (int, error) {
		key, err := accesslog.ParseKey(text)
		if err != nil {
			return -1, usage("-%s: %w", flag, err)
		}
		values = append(values, key)
		return len(values) - 1, nil
	}
	for name, text := range names {
		if o.Names[name], err = add("name", text); err != nil {
			return o, nil, err
		}
	}
	if text := c.String("plan"); text != "" {
		o.Plan, err = add("plan", text)
	}
	return o, values, err
}

// writeSimulation writes a result in words.
func writeSimulation(w io.Writer, r *simulate.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, of which %d would have been denied (%s). %d met no limit.\n\n",
		capitalized(counted(int(r.Requests), "request", "requests")), r.Denied, shareOf(r.Denied, r.Requests), r.Unlimited)
	rows := make([][]string, len(r.Limits))
	for i, l := range r.Limits {
		rows[i] = []string{
			printable(shadowed(l.Name, l.Shadow)), strconv.FormatUint(l.Requests, 10), strconv.FormatUint(l.Denied, 10),
			shareOf(l.Denied, l.Requests), strconv.Itoa(l.Keys), strconv.Itoa(l.DeniedKeys),
		}
	}
	if len(rows) > 0 {
		_ = writeTable(&b, []string{"LIMIT", "REQUESTS", "DENIED", "", "KEYS", "DENIED KEYS"}, rows) // a Builder never fails
	}
	for _, l := range r.Limits {
		if len(l.Busiest) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nMost denied by %s:\n", printable(shadowed(l.Name, l.Shadow)))
		rows = make([][]string, len(l.Busiest))
		for i, k := range l.Busiest {
			rows[i] = []string{
				"    " + printable(k.Key), fmt.Sprintf("%d of %d", k.Denied, k.Requests), "first at " + k.First.Format("2006-01-02 15:04:05 -0700"),
			}
		}
		_ = writeTable(&b, []string{"    KEY", "DENIED", ""}, rows)
	}
	if notes := r.AllNotes(); len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func shareOf(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(whole))
}
