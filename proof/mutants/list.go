package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a fault in a file, and the tests that notice it.
type mutant struct {
	file      string // from the root of the repository
	says      string // what goes wrong, as a sentence
	was, gets string
	tests     []command // of which one fails
}

// command is the arguments of a go test.
type command []string

func (c command) String() string { return "go test " + strings.Join(c, " ") }

// directory is where the faults of a package's files are, below the package.
const directory = "testdata/mutants"

// list returns all mutants of the repository, whose root is the working directory.
func list() (all []mutant, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		in := filepath.ToSlash(filepath.Dir(path))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(in, "/"+directory):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("mutants: %w", err)
		}
		name, isDiff := strings.CutSuffix(filepath.Base(path), ".diff")
		if !isDiff {
			return fmt.Errorf("mutants: %s is no .diff file", path)
		}
		own, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("mutants: %s: %w", path, err)
		}
		for i := range own {
			own[i].file = filepath.Join(strings.TrimSuffix(in, "/"+directory), name)
		}
		all = append(all, own...)
		return nil
	})
	return all, err
}

// parse reads the faults of one file: the commands that hold for the next faults, a line each, and below them a sentence and
// the difference for each fault. Lines of a difference begin with a minus, a plus or a space.
func parse(text string) (all []mutant, err error) {
	var own mutant
	ended := func() error { // a difference
		if own.was+own.gets == "" {
			return nil
		}
		if len(own.tests) == 0 || own.says == "" || own.was == "" {
			return fmt.Errorf("no test, no sentence or no line that is there beside %q", own.was+own.gets)
		}
		all = append(all, own)
		own = mutant{tests: own.tests}
		return nil
	}
	var before string // the line before this one that is not empty
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "-"):
			own.was += line[1:]
		case strings.HasPrefix(line, "+"):
			own.gets += line[1:]
		case strings.HasPrefix(line, " "):
			own.was, own.gets = own.was+line[1:], own.gets+line[1:]
		default:
			if err := ended(); err != nil {
				return nil, err
			}
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			arguments, isCommand := strings.CutPrefix(line, "go test ")
			switch {
			case !isCommand:
				own.says = strings.TrimSpace(own.says + " " + line)
			case strings.HasPrefix(before, "go test "):
				own.tests = append(slices.Clip(own.tests), argumentsOf(arguments))
			default:
				own.tests = []command{argumentsOf(arguments)}
			}
		}
		before = line
	}
	if err := ended(); err != nil {
		return nil, err
	}
	if len(all) == 0 || own.says != "" {
		return nil, errors.New("the last sentence has no difference")
	}
	return all, nil
}

// argumentsOf returns the arguments of a command, in which quotes are for the reader.
func argumentsOf(text string) command { return strings.Fields(strings.ReplaceAll(text, "'", "")) }
