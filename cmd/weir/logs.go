package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

// logFlags returns the flags of every command that reads access logs, and others.
func logFlags(stderr io.Writer, others ...cli.Flag) []cli.Flag {
	return append(others,
		&cli.StringFlag{Name: "format", Usage: "the `FORMAT` of all: nginx, apache, alb, caddy, traefik or json, or the log_format or LogFormat " +
			"that the server was told; by default each is looked at"},
		&cli.StringFlag{Name: "time", Usage: "the `.path` of the timestamp in JSON lines"},
		&cli.StringFlag{Name: "zone", Value: "UTC", Usage: "the time `ZONE` of the report, and of timestamps that name none"},
		&cli.StringFlag{Name: "names", Value: "hash", Usage: "how the report calls keys: hash, or plain as the log has them"},
		&cli.StringFlag{Name: "salt", Usage: "a secret for the hashes, to compare reports; each run has its own", Sources: cli.EnvVars("WEIR_SALT")},
		&cli.DurationFlag{Name: "late", Value: 10 * time.Second, Usage: "wait so long for a line that stands behind a younger one"},
		&cli.FloatFlag{Name: "max-skipped", Value: 0.1, Usage: "the `SHARE` of lines that need not be readable"},
		&cli.BoolFlag{Name: "progress", Usage: "tell how far it is on standard error; by default on a terminal", Value: isTerminal(stderr)},
	)
}

// logs are access logs, and how they are read.
type logs struct {
	named      []string // as the command line names the files
	files      []string // where they are
	zone       *time.Location
	options    arrival.Options
	maxSkipped float64
	total      int64 // bytes of all files
	name       func(key string) string
}

// newLogs returns the logs of these names as the flags say to read them.
func newLogs(c *cli.Command, named []string) (*logs, error) {
	l := &logs{named: named, files: slices.Clone(named), maxSkipped: c.Float("max-skipped")}
	if len(named) == 0 {
		return nil, usage("name an access log, or - for standard input: see weir help %s", c.Name)
	}
	var err error
	if l.zone, err = time.LoadLocation(c.String("zone")); err != nil {
		return nil, usage("-zone: %w", err)
	}
	if c.Duration("late") < time.Second || c.Duration("late") > arrival.MostLate {
		return nil, usage("-late must be from 1s to 1h")
	}
	l.options = arrival.Options{Log: accesslog.Options{Time: c.String("time"), Zone: l.zone}, Late: c.Duration("late")}
	if name := c.String("format"); name != "" {
		if l.options.Format, err = accesslog.ParseFormat(name); err != nil {
			return nil, usage("%w", err)
		}
	}
	l.name, err = namer(c)
	return l, err
}

// usable returns why logs that were read, perhaps with an error, are nothing to go by.
func (l *logs) usable(summary arrival.Summary, err error) error {
	switch {
	case errors.Is(err, accesslog.ErrKey):
		return usage("%w", err)
	case err != nil:
		return err
	case summary.Lines > 0 && float64(summary.Skipped) > l.maxSkipped*float64(summary.Lines):
		return exitError{fmt.Errorf("%s. %s", l.firstBad(summary), summary.Hidden(l.name, nil)), exitUnreadable}
	case summary.Arrivals == 0:
		return exitError{fmt.Errorf("no request to go by: of %s, %d are of other routes, %d have no key, and %d could not be read",
			counted(int(summary.Lines), "line", "lines"), summary.OtherRoute, summary.Keyless, summary.Skipped), exitEmpty}
	}
	return nil
}

func called(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// firstBad says which line was the first that could not be read.
func (l *logs) firstBad(s arrival.Summary) string {
	bad := s.FirstBad
	return fmt.Sprintf("%d of %d lines could not be read; %s, line %d: %s: %q",
		s.Skipped, s.Lines, called(l.named[slices.Index(l.files, bad.File)]), bad.Line, bad.Why, bad.Text)
}

// open sees that every file is there, and copies standard input into one. The function that it returns removes the copy.
func (l *logs) open(stdin io.Reader) (forget func() error, err error) {
	forget = func() error { return nil }
	spooled := false
	for i, name := range l.files {
		if name == "-" {
			if spooled {
				return forget, usage("standard input can be read once")
			}
			spooled = true
			if l.files[i], err = logfile.Spool(stdin); err != nil {
				return forget, err
			}
			name = l.files[i]
			forget = func() error { return os.Remove(name) }
		}
		info, err := os.Stat(name)
		if err != nil {
			return forget, err
		}
		if !info.Mode().IsRegular() {
			return forget, usage("%s is no regular file, and a log may be read twice: give it to standard input (-)", name)
		}
		l.total += info.Size()
	}
	return forget, nil
}
