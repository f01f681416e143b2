package main

import (
	"strings"
	"testing"
)

func TestBadArgumentsAreErrors(t *testing.T) {
	for arguments, want := range map[string]string{
		"-only=(":       "missing closing )",
		"-only=nothing": `no scenario has a name that matches "nothing"`,
		"all":           `unexpected argument "all"`,
	} {
		if err := command(t.Context(), []string{arguments}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if seen[s.name] {
			t.Errorf("two scenarios are called %s", s.name)
		}
		seen[s.name] = true
	}
}
