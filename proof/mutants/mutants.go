// Command mutants plants faults in the code, one at a time, and fails if the tests that are named beside one do not notice it,
// or fail without it. No file is changed: the compiler is told to read another one in its place.
//
//	go run ./mutants           # all, for minutes
//	go run ./mutants batch     # those whose file's name contains this
//
// The faults of dir/file.go are in dir/testdata/mutants/file.go.diff. A line that begins with "go test" names tests to run at
// the root of the repository, and several such lines in a row name several commands, one of which has to fail. They hold for
// all faults below. A fault is a sentence that says what goes wrong, and the difference: the lines that are there once in
// the file, and what they become.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := os.Chdir("..")
	if err == nil {
		err = run(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, names []string) error {
	mutants, err := list()
	if err != nil {
		return err
	}
	tried, survived := 0, 0
	passed := make(map[string]bool) // the commands that pass without a fault
	for i, m := range mutants {
		if len(names) > 0 && !strings.Contains(m.file, names[0]) {
			continue
		}
		tried++
		for _, tests := range m.tests {
			if passed[tests.String()] {
				continue
			}
			if output, err := tests.run(ctx); err != nil {
				return fmt.Errorf("mutants: %s fails without a fault: %w\n%s", tests, err, output)
			}
			passed[tests.String()] = true
		}
		start := time.Now()
		outcome, err := m.try(ctx)
		if err != nil {
			outcome = "SURVIVES: " + m.says + " " + err.Error()
			survived++
		}
		_, _ = fmt.Fprintf(os.Stdout, "%3d  %-36s %5.1fs  %s\n", i+1, m.file, time.Since(start).Seconds(), outcome)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if tried == 0 {
		return errors.New("mutants: there are none of that name: run this in the directory proof")
	}
	_, _ = fmt.Fprintf(os.Stdout, "%d of %d mutants caught\n", tried-survived, tried)
	if survived > 0 {
		return fmt.Errorf("mutants: %d survive", survived)
	}
	return nil
}

// mutate returns the file's text with the fault in it.
func (m *mutant) mutate() (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	if n := strings.Count(string(text), m.was); n != 1 {
		return "", fmt.Errorf("mutants: %s has %d places that read %q, want 1", m.file, n, m.was)
	}
	return strings.Replace(string(text), m.was, m.gets, 1), nil
}

// try runs the tests with the fault, and returns how they failed, or an error if they did not.
func (m *mutant) try(ctx context.Context) (outcome string, err error) {
	text, err := m.mutate()
	if err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	mutated, overlay := filepath.Join(temporary, filepath.Base(m.file)), filepath.Join(temporary, "overlay.json")
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	if err := errors.Join(os.WriteFile(mutated, []byte(text), 0o600), os.WriteFile(overlay, replaced, 0o600)); err != nil {
		return "", err
	}
	for _, tests := range m.tests {
		defer tests.forget()
		output, err := tests.run(ctx, "-overlay", overlay)
		switch {
		case err == nil:
			continue
		case strings.Contains(string(output), "[build failed]") || strings.Contains(string(output), "[setup failed]"):
			return "", fmt.Errorf("it does not compile:\n%s", output)
		case strings.Contains(string(output), "panic: test timed out"):
			return "caught: the tests did not end", nil
		}
		return "caught", nil
	}
	return "", fmt.Errorf("the tests pass: %v", m.tests)
}

// module parts the directory of a module of its own, "-C cmd/weir", from the tests in it.
func (c command) module() (directory string, tests []string) {
	if len(c) > 1 && c[0] == "-C" {
		return c[1], c[2:]
	}
	return ".", c
}

// run runs the tests, and returns what they print.
func (c command) run(ctx context.Context, flags ...string) (output []byte, err error) {
	in, tests := c.module()
	arguments := slices.Concat([]string{"test", "-C", in, "-count=1", "-failfast", "-timeout=2m"}, flags, tests)
	return exec.CommandContext(ctx, "go", arguments...).CombinedOutput()
}

// forget removes the examples that rapid has kept: one that fails with this fault is no example for the next one.
func (c command) forget() {
	in, tests := c.module()
	for _, argument := range tests {
		if strings.HasPrefix(argument, "./") {
			_ = os.RemoveAll(filepath.Join(in, argument, "testdata", "rapid"))
		}
	}
}
