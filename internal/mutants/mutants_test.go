package main

import (
	"os"
	"testing"
)

// Every fault on the list can still be planted: its place is there, once.
func TestMutantsCanBePlanted(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.mutate(); err != nil {
			t.Error(err)
		}
		if m.was == m.gets {
			t.Errorf("%s: %q is no fault", m.file, m.was)
		}
	}
	if len(mutants) < 20 {
		t.Errorf("%d mutants were found", len(mutants))
	}
}
