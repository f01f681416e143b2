package core

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

//go:embed lua/*.lua
var lua embed.FS

// script is the Lua that decides questions about some set of algorithms.
type script struct {
	source string
	hash   string // what EVALSHA calls it
}

// set is a set of algorithms, a bit for each.
type set uint8

func setOf(a exact.Algorithm) set { return 1 << (a - 1) }

// algorithms returns the members of a set, in order.
func (s set) algorithms() []exact.Algorithm {
	var members []exact.Algorithm
	for a := range exact.All() {
		if s&setOf(a) != 0 {
			members = append(members, a)
		}
	}
	return members
}

// allSets is how many sets there are.
const allSets = 1 << exact.Count

// task is what a script does with the algorithms it has.
type task uint8

const (
	decide task = iota
	settle
	tasks // how many there are
)

func (t task) file() string { return [tasks]string{"decide", "settle"}[t] }

// newScript assembles the script of a task for a set of algorithms. Values never
// become part of it, so there are no more scripts than sets.
func newScript(of set, injectedClock bool, does task) *script {
	clock := "time"
	if injectedClock {
		clock = "clock"
	}
	a := assembly{of: of}
	for _, file := range [...]string{"prelude", clock, "functions", does.file()} {
		a.include(file)
	}
	source := a.String()
	sum := sha1.Sum([]byte(source)) // SHA-1 is how Redis names scripts
	return &script{source: source, hash: hex.EncodeToString(sum[:])}
}

// assembly is a script for a set of algorithms that is being put together.
type assembly struct {
	strings.Builder

	of set
}

// include appends a file, and what it includes. Some names stand for parts of the
// algorithms' files: see prelude.lua.
func (a *assembly) include(name string) {
	switch name {
	case "functions":
		for _, algorithm := range a.of.algorithms() {
			a.append(section(algorithm, name))
		}
	case "observe", "store", "renumber", "adjust":
		a.branch(name)
	case "meter":
		if slices.ContainsFunc(a.of.algorithms(), func(a exact.Algorithm) bool { return !a.Windowed() }) {
			a.append(partOf(luaFile(name), "observe"))
		}
	default:
		a.append(luaFile(name))
	}
}

// branch appends a part of each algorithm's file, for the limits of that algorithm. Those that have
// the same share one.
func (a *assembly) branch(name string) {
	var texts []string
	asked := make(map[string][]string) // by the text
	for _, algorithm := range a.of.algorithms() {
		text := section(algorithm, name)
		if asked[text] == nil {
			texts = append(texts, text)
		}
		asked[text] = append(asked[text], "limit.algorithm == '"+algorithm.String()+"'")
	}
	branch := "if "
	for _, text := range texts {
		a.append(branch + strings.Join(asked[text], " or ") + " then\n" + text)
		branch = "elseif "
	}
	a.append("end\n")
}

// append appends text, with what its lines include.
func (a *assembly) append(text string) {
	for line := range strings.Lines(text) {
		if name, ok := partName(line); ok {
			a.include(name)
		} else {
			_, _ = a.WriteString(line)
		}
	}
}

// partName returns the name that follows three dashes in a line.
func partName(line string) (name string, ok bool) {
	return strings.CutPrefix(strings.TrimSpace(line), "--- ")
}

// section returns a part of an algorithm's file. What a meter's lacks is that of all meters.
func section(a exact.Algorithm, name string) string {
	text := partOf(luaFile(strings.ReplaceAll(a.String(), "-", "_")), name)
	if text == "" && !a.Windowed() && name != "functions" {
		return partOf(luaFile("meter"), name)
	}
	return text
}

// partOf returns what stands below a name in a file, up to the next one.
func partOf(file, name string) string {
	var text strings.Builder
	within := false
	for line := range strings.Lines(file) {
		if found, ok := partName(line); ok {
			within = found == name
		} else if within {
			text.WriteString(line)
		}
	}
	return text.String()
}

func luaFile(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("core: " + err.Error()) // a file that go:embed has not found
	}
	return string(text)
}
