// Weir is the command line of the rate limiter. It recommends limits from access logs, checks and explains files of policies, and looks
// after the limits that live in Redis:
// see "weir help".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"
)

// The exit codes.
const (
	exitFailed     = 1 // a file could not be read or written, or weir check has found a mistake in it
	exitUsage      = 2 // the command line makes no sense
	exitEmpty      = 3 // the logs have no request to go by
	exitUnreadable = 4 // more lines could not be read than -max-skipped allows
)

const exitCodes = `Exit codes:
   0  the report was written
   1  a file could not be read or written
   2  the command line makes no sense
   3  the logs have no request to go by
   4  more lines could not be read than -max-skipped allows`

// exitError is an error that ends the program with a code of its own.
type exitError struct {
	error

	code int
}

func (e exitError) Unwrap() error { return e.error }

func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitUsage}
}

func main() {
	redis.SetLogger(silent{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// silent discards the log of go-redis about sentinels and connections: it is no answer to a command, and errors are returned.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// run runs the program and returns its exit code. Results go to stdout, and all else to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command(stdin, stdout, stderr).Run(ctx, inPlace(args))
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "weir: %s\n", plain(err))
	if failed, ok := errors.AsType[exitError](err); ok {
		return failed.code
	}
	return exitFailed
}

// inPlace returns the arguments of a program that was started under the name of Envoy's rate limit service, such as by Envoy Gateway: it is
// weir serve then.
func inPlace(args []string) []string {
	if len(args) == 0 || filepath.Base(args[0]) != "ratelimit" {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "serve")
}

func command(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	wrong := func(_ context.Context, _ *cli.Command, err error, _ bool) error { return usage("%w", err) }
	commands := []*cli.Command{
		recommendCommand(stdin, stdout, stderr), doctorCommand(stdin, stdout), topCommand(stdin, stdout), peekCommand(stdin, stdout), resetCommand(stdout),
		banCommand(stdout), liftCommand(stdout), bansCommand(stdout),
		topUpCommand(stdout), balancesCommand(stdout), restoreCommand(stdin, stdout),
		checkCommand(stdin, stdout), signCommand(stdin, stdout), explainCommand(stdin, stdout), planCommand(stdin, stdout, stderr),
		simulateCommand(stdin, stdout, stderr), serveCommand(stderr), versionCommand(stdout),
	}
	for _, c := range commands {
		c.OnUsageError = wrong
		c.DisableSliceFlagSeparator = true // a limit has a comma
	}
	return &cli.Command{
		Name: "weir", Usage: "finds rate limits by evidence, checks files of policies, and looks after the keys in Redis", Version: version(),
		EnableShellCompletion: true, Suggest: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) { c.Hidden = false },
		Writer:                          stdout, ErrWriter: stderr,
		OnUsageError:   wrong,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run does it
		Commands:       commands,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usage("there is no command %q: see weir help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
}

func versionCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{Name: "version", Usage: "says which version this is", Action: func(context.Context, *cli.Command) error {
		_, err := fmt.Fprintln(stdout, "weir", version())
		return err
	}}
}

// version returns the version of the module, or the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
