package main

import (
	"slices"
	"strings"
	"testing"
)

// Every fault can still be planted: its place is there, once.
func TestMutantsCanBePlanted(t *testing.T) {
	t.Chdir("../..")
	mutants, err := list()
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
	if len(mutants) < 500 {
		t.Errorf("%d mutants were found", len(mutants))
	}
}

// A file has commands, each followed by the faults that they notice.
func TestFilesOfMutantsAreRead(t *testing.T) {
	const first = "go test ./a -run 'One|Two'\n\nIt fails:\n\n-was\n+gets\n kept\n \n-too\n"
	all, err := parse(first + "\nIt fails,\nand differently:\n\n-x\n+y\n\ngo test ./b\ngo test -C proof ./c\n\nAgain:\n\n-z\n")
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	if m := all[0]; m.was != "was\nkept\n\ntoo\n" || m.gets != "gets\nkept\n\n" || m.says != "It fails:" || len(m.tests) != 1 ||
		!slices.Equal(m.tests[0], []string{"./a", "-run", "One|Two"}) {
		t.Errorf("%+v", m)
	}
	if m := all[1]; m.was != "x\n" || m.gets != "y\n" || m.says != "It fails, and differently:" || len(m.tests) != 1 {
		t.Errorf("%+v", m)
	}
	if m := all[2]; len(m.tests) != 2 || m.tests[0].String() != "go test ./b" || m.tests[1].String() != "go test -C proof ./c" {
		t.Errorf("%+v", m)
	}
	for _, wrong := range []string{"", "It fails:\n\n-a\n+b\n", "go test ./a\n\n-a\n", "go test ./a\n\nIt fails:\n\n+a\n", first + "\nIt fails:\n"} {
		if all, err := parse(wrong); err == nil {
			t.Errorf("%q is read as %+v", strings.TrimSpace(wrong), all)
		}
	}
}
