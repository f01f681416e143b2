// Command mutants plants the faults that docs/mutants.md lists, one at a time, and fails if the tests
// that are named beside one do not notice it, or fail without it. No file is changed: the compiler is told to read another
// one in its place.
//
//	go run ./internal/mutants           # all, for minutes
//	go run ./internal/mutants batch     # those whose file's name contains this
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

const list = "docs/mutants.md"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, names []string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("mutants: run this at the root of the repository: %w", err)
	}
	mutants, err := parse(string(text))
	if err != nil {
		return err
	}
	tried, survived := 0, 0
	passed := make(map[string]bool) // the tests that pass without a fault
	for i, m := range mutants {
		if len(names) > 0 && !strings.Contains(m.file, names[0]) {
			continue
		}
		tried++
		if tests := strings.Join(m.test, " "); !passed[tests] {
			if output, err := goTest(ctx, m.test); err != nil {
				return fmt.Errorf("mutants: go test %s fails without a fault: %w\n%s", tests, err, output)
			}
			passed[tests] = true
		}
		start := time.Now()
		outcome, err := m.try(ctx)
		if err != nil {
			outcome = "SURVIVES: " + err.Error()
			survived++
		}
		_, _ = fmt.Fprintf(os.Stdout, "%3d  %-36s %5.1fs  %s\n", i+1, m.file, time.Since(start).Seconds(), outcome)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if tried == 0 {
		return errors.New("mutants: there are none of that name")
	}
	_, _ = fmt.Fprintf(os.Stdout, "%d of %d mutants caught\n", tried-survived, tried)
	if survived > 0 {
		return fmt.Errorf("mutants: %d survive", survived)
	}
	return nil
}

// mutant is a fault in a file, and the tests that notice it.
type mutant struct {
	file      string
	was, gets string
	test      []string // arguments of go test
}

// parse reads the list: a heading with a file, a line with its tests, and blocks of differences.
func parse(text string) (mutants []mutant, err error) {
	var file string
	var test []string
	for rest := text; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		switch {
		case strings.HasPrefix(line, "## `"):
			file, test = strings.Trim(line[3:], "`"), nil
		case strings.HasPrefix(line, "    go test "):
			test = strings.Fields(strings.ReplaceAll(line, "'", ""))[2:]
		case line == "```diff":
			var block string
			block, rest, _ = strings.Cut(rest, "```\n")
			m := mutant{file: file, test: test}
			for line := range strings.Lines(block) {
				switch line[0] {
				case '-':
					m.was += line[1:]
				case '+':
					m.gets += line[1:]
				default:
					m.was += line[1:]
					m.gets += line[1:]
				}
			}
			if file == "" || len(test) == 0 || m.was == "" {
				return nil, fmt.Errorf("mutants: no file or no test for the block %q", block)
			}
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
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
	directory, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	mutated, overlay := filepath.Join(directory, filepath.Base(m.file)), filepath.Join(directory, "overlay.json")
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
	in, tests := moduleOf(m.test)
	for _, argument := range tests { // what fails now is no example for the next fault
		if strings.HasPrefix(argument, "./") {
			defer func() { _ = os.RemoveAll(filepath.Join(in, argument, "testdata", "rapid")) }()
		}
	}
	output, err := goTest(ctx, m.test, "-overlay", overlay)
	switch {
	case err == nil:
		return "", errors.New("the tests pass: go test " + strings.Join(m.test, " "))
	case strings.Contains(string(output), "[build failed]") || strings.Contains(string(output), "[setup failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", output)
	case strings.Contains(string(output), "panic: test timed out"):
		return "caught: the tests did not end", nil
	}
	return "caught", nil
}

// moduleOf parts the directory of a module of its own, "-C cmd/weir", from the tests in it.
func moduleOf(test []string) (directory string, tests []string) {
	if len(test) > 1 && test[0] == "-C" {
		return test[1], test[2:]
	}
	return ".", test
}

// goTest runs tests, and returns what they print.
func goTest(ctx context.Context, tests []string, flags ...string) (output []byte, err error) {
	in, tests := moduleOf(tests)
	arguments := slices.Concat([]string{"test", "-C", in, "-count=1", "-failfast", "-timeout=2m"}, flags, tests)
	return exec.CommandContext(ctx, "go", arguments...).CombinedOutput() //nolint:gosec,wrapcheck // the list is ours, and callers say which
}
