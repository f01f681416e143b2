package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/servertest"
)

// jobOf returns the steps of the job in the documentation that run weir, as a shell reads them.
func jobOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "changing-a-limit.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, job, _ := strings.Cut(string(text), "\njobs:\n")
	job, _, _ = strings.Cut(job, "\n```\n\n")
	var steps []string
	for _, step := range regexp.MustCompile(`(?m)^ +(?:- )?run: (.*(?:\n {10}.*)*)`).FindAllStringSubmatch(job, -1) {
		if strings.Contains(step[1], "weir ") && !strings.HasPrefix(step[1], "go install") {
			steps = append(steps, strings.TrimPrefix(strings.ReplaceAll("\n"+step[1], "\n          ", "\n"), "\n|\n"))
		}
	}
	if len(steps) != 2 {
		t.Fatalf("%d steps run weir in\n%s", len(steps), job)
	}
	return strings.Join(steps, "\n")
}

// The job in the documentation does what it says, in a repository of git: for the pull request that brings the file, for one that changes
// it, and for one after which it makes no sense.
func TestTheJobOfTheDocumentation(t *testing.T) {
	for _, program := range []string{"git", "bash"} {
		servertest.Program(t, program)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, repository := t.TempDir(), t.TempDir()
	weir := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, program)
	if err := os.WriteFile(filepath.Join(bin, "weir"), []byte(weir), 0o700); err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(bin, "summary")
	shell := func(script string) (code int, output string) {
		t.Helper()
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY="+summary, "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "REDIS_URL=")
		out, err := cmd.CombinedOutput()
		if exit, ended := errors.AsType[*exec.ExitError](err); ended {
			return exit.ExitCode(), string(out)
		} else if err != nil {
			t.Fatal(err)
		}
		return 0, string(out)
	}
	if code, out := shell("git init -q -b main && git commit -q --allow-empty -m begin"); code != 0 {
		t.Fatal(out)
	}
	job := jobOf(t)
	for _, pull := range []struct {
		name, limits string
		code         int
		says         string
	}{
		{"first", "limits:\n  burst: leaky 20, 5/s\npolicies:\n  - limit: burst\n    key: ip\n", 0, "+ limit burst: leaky 20, 5/s"},
		{"change", "limits:\n  burst: leaky 10, 5/s\npolicies:\n  - limit: burst\n    key: ip\n", 0, "~ limit burst: leaky 20, 5/s → leaky 10, 5/s"},
		{"same", "limits:\n  burst: leaky 10, 5/s\npolicies:\n  - limit: burst\n    key: ip # a comment\n", 0, "Nothing changes."},
		{"nonsense", "limits:\n  burst: leaky 10\n", exitFailed, ""},
	} {
		if err := errors.Join(os.WriteFile(filepath.Join(repository, "limits.yaml"), []byte(pull.limits), 0o600), os.WriteFile(summary, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if code, out := shell("git update-ref refs/remotes/origin/main HEAD && git add . && git commit -q -m " + pull.name); code != 0 {
			t.Fatal(out)
		}
		code, out := shell(job)
		written, err := os.ReadFile(summary)
		if err != nil || code != pull.code || !strings.Contains(string(written), pull.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %v, %s\n%s", pull.name, code, pull.code, pull.says, err, written, out)
		}
		if code == 0 && (!strings.HasPrefix(string(written), "```\n") || !strings.HasSuffix(string(written), "\n```\n")) {
			t.Errorf("%s: the summary is\n%s", pull.name, written)
		}
	}
	if code, out := shell("git show HEAD~3:limits.yaml | weir plan -exit-code - <(git show HEAD~2:limits.yaml)"); code != exitChanged {
		t.Errorf("exit code %d of a plan with changes: %s", code, out)
	}
}
