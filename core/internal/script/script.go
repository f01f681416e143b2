// Package script is the Lua that decides calls and carries out settlements in Redis: whole scripts, what
// goes into one, and what comes back.
//
// A script is assembled from the files in lua for the algorithms that a batch uses. The whole ones stand
// in testdata as they are sent. The arithmetic in them is that of package exact.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

//go:embed lua/*.lua
var lua embed.FS

// Script is the Lua of a task for some set of algorithms.
type Script struct {
	Source string
	Hash   string // what EVALSHA calls it
}

// Set is a set of algorithms, a bit for each.
type Set uint16

// SetOf returns the set that has one algorithm.
func SetOf(a exact.Algorithm) Set { return 1 << (a - 1) }

// algorithms returns the members of a set, in order.
func (s Set) algorithms() []exact.Algorithm {
	var members []exact.Algorithm
	for a := range exact.All() {
		if s&SetOf(a) != 0 {
			members = append(members, a)
		}
	}
	return members
}

// Sets is how many sets there are.
const Sets = 1 << exact.Count

// Task is what a script does with the algorithms that it has.
type Task uint8

// The tasks.
const (
	Decide  Task = iota // calls
	Settle              // corrections
	Reserve             // calls some of whose checks reserve for a time
	Close               // corrections some of which are of such charges
	Release             // corrections each of which gives back one place: see Request.Releases
	Tasks               // how many there are
)

func (t Task) file() string {
	return [Tasks]string{"decide", "settle", "reserve", "close", "release"}[t]
}

// assembled are the scripts that this process has asked for. Values never become part of one, so that all stores of
// a process share them, and there are no more than sets.
var assembled sync.Map // of Scripts, by what New is told

// New returns the script of a task for a set of algorithms. With an injected clock, which is for tests, the last
// argument of a call is the time. It may be called concurrently.
func New(of Set, injectedClock bool, does Task) *Script {
	type told struct {
		of            Set
		injectedClock bool
		does          Task
	}
	key := told{of, injectedClock, does}
	if s, ok := assembled.Load(key); ok {
		return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
	}
	s, _ := assembled.LoadOrStore(key, assemble(of, injectedClock, does))
	return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
}

// assemble puts a script together.
func assemble(of Set, injectedClock bool, does Task) *Script {
	clock := "time"
	if injectedClock {
		clock = "clock"
	}
	a := assembly{of: of, does: does}
	if does != Release { // that knows neither limits nor instants
		a.include("prelude")
		a.include(clock)
		a.include("functions")
	}
	a.include(does.file())
	source := a.String()
	sum := sha1.Sum([]byte(source)) // SHA-1 is how Redis names scripts
	return &Script{Source: source, Hash: hex.EncodeToString(sum[:])}
}

// assembly is a script for a set of algorithms that is being put together.
type assembly struct {
	strings.Builder

	of   Set
	does Task
}

// include appends a file, and what it includes. Some names stand for parts of the
// algorithms' files: see prelude.lua.
func (a *assembly) include(name string) {
	switch name {
	case "functions", "holder", "hold", "strike":
		for _, algorithm := range a.of.algorithms() {
			a.append(section(algorithm, name))
		}
	case "observe", "store", "renumber", "adjust":
		a.branch(name)
	case "meter":
		if slices.ContainsFunc(a.of.algorithms(), func(a exact.Algorithm) bool { return !a.Windowed() }) {
			a.append(partOf(luaFile(name), "observe"))
		}
	case "open", "returned":
		if a.does == Reserve {
			a.append(partOf(luaFile(Reserve.file()), name))
		}
	case Decide.file():
		if a.does == Decide { // else the task has told it
			a.append(luaFile("asked"))
		}
		a.append(luaFile(name))
	case Reserve.file():
		text, _, _ := strings.Cut(luaFile(name), "\n--- open")
		a.append(text + "\n")
	default:
		a.append(luaFile(name))
	}
}

// branch appends a part of each algorithm's file, for the limits of that algorithm. Those that have
// the same share one. If all have the same, the script need not ask which one a limit has.
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
	if len(texts) == 1 {
		a.append("do\n" + texts[0] + "end\n")
		return
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
		panic("script: " + err.Error()) // a file that go:embed has not found
	}
	return string(text)
}
