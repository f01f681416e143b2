// Command bench compares the limiters of this project with others, and with the
// cheapest call to Redis, in one run on one redis-server that it starts
// itself. It writes a report with tables and plots.
//
//	go run .            # the tables of docs/benchmarks.md, and the figures of README.md
//	go run . -quick     # the same in shorter rounds, into quick/
//	go run . -only logs -lines 100000000   # a log of 20 GB, below the temporary directory
//
// It is a module of its own, so that the contenders are no dependencies of the
// project. It needs redis-server on the PATH, and a Unix system.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
)

func main() {
	if code, asked := generator(os.Stdout, os.Stderr); asked {
		os.Exit(code)
	}
	if code, asked := commander(os.Stderr); asked {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs the program with its arguments.
func command(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "measure in shorter rounds")
	only := flags.String("only", "", "run the scenarios whose names match this regular `expression`, into a report of their own")
	lines := flags.Int("lines", 0, "how many lines the generated access log has (default ten million, and fewer with -quick)")
	out := flags.String("out", "", "the `directory` for the report (default ../docs, and quick with -quick or -only)")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench: unexpected argument %q", flags.Arg(0))
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("bench: -only: %w", err)
	}
	published := filepath.Join("..", "docs")
	p, directory := fullProfile(), published
	if *quick {
		p = quickProfile()
	}
	if *lines > 0 {
		p.lines = *lines
	}
	if *quick || *only != "" {
		directory = "quick"
	}
	if *out != "" {
		directory = *out
	}
	r, comparisons, err := run(ctx, p, chosen, os.Stderr)
	if err != nil {
		return err
	}
	if err := save(directory, r, comparisons); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", filepath.Join(directory, "benchmarks.md"))
	if figures := readmeFigures(r, comparisons); directory != published {
		return saveAs(filepath.Join(directory, "figures.md"), figures)
	} else if err := saveFigures(filepath.Join("..", "README.md"), figures); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written: the figures of README.md")
	return nil
}

// run starts a server, verifies the contenders and compares them in the scenarios
// with a chosen name.
func run(ctx context.Context, p profile, chosen *regexp.Regexp, progress io.Writer) (_ report, comparisons []comparison, err error) {
	if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return chosen.MatchString(s.name) }) {
		return report{}, nil, fmt.Errorf("bench: no scenario has a name that matches %q", chosen)
	}
	server, end, err := redistest.Launch() //nolint:contextcheck // it is ended below, however this ends
	if err != nil {
		return report{}, nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { err = errors.Join(err, client.Close()) }()

	started := time.Now()
	b := &bench{profile: p, redis: server.Addr(), meter: meter{client}, report: func(format string, arguments ...any) {
		_, _ = fmt.Fprintf(progress, "%5.0fs  "+format+"\n", append([]any{time.Since(started).Seconds()}, arguments...)...)
	}}
	contenders := slices.Concat(inRedis(), inMemory())
	b.report("every contender admits, then denies")
	for _, c := range contenders {
		if c.name == floorName {
			continue // it decides nothing
		}
		if err := verify(ctx, b.redis, c); err != nil {
			return report{}, nil, err
		}
	}
	for _, s := range scenarios() {
		if !chosen.MatchString(s.name) {
			continue
		}
		compared, err := s.run(b, ctx)
		if err != nil {
			return report{}, nil, err
		}
		comparisons = append(comparisons, compared...)
	}
	m, err := describe(ctx, client)
	if err != nil {
		return report{}, nil, err
	}
	b.report("done")
	return newReport(started, p, m, contenders, comparisons), comparisons, nil
}
