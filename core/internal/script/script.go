// Package script is the Lua that decides calls and carries out settlements in Redis: whole scripts, what
// goes into one, and what comes back.
//
// A script is assembled from the files in lua, for one algorithm or for all of them, so that there are few. Those for
// all stand in testdata as they are sent. The arithmetic in them is that of package exact.
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

// Script is the Lua of a task, for one algorithm or for all.
type Script struct {
	Source string
	Hash   string // what EVALSHA calls it
}

// Mixed stands for all algorithms where a script may be that of one: it is what calls need that mix some.
const Mixed = exact.None

// Task is what a script does.
type Task uint8

// The tasks.
const (
	Decide  Task = iota // calls
	Settle              // corrections
	Reserve             // calls some of whose checks reserve for a time, whatever their algorithms
	Close               // corrections some of which are of such charges, whatever their algorithms
	Release             // corrections each of which gives back one place: see Request.Releases
	Order               // none: the order in which processes wait
	Tasks               // how many there are
)

// Settles reports whether a task is about corrections, and not about calls.
func (t Task) Settles() bool { return t == Settle || t == Close || t == Release }

// general reports whether the scripts of a task are one, which knows all algorithms.
func (t Task) general() bool { return t >= Reserve }

func (t Task) file() string {
	return [Tasks]string{"decide", "settle", "reserve", "close", "release", "order"}[t]
}

// assembled are the scripts that this process has asked for. Values never become part of one, so that all stores of
// a process share them, and there are few.
var assembled sync.Map // of Scripts, by what New is told

// New returns the script of a task for an algorithm, or for all of them if that is Mixed. With an injected clock, which
// is for tests, the last argument of a call is the time. It may be called concurrently.
func New(does Task, of exact.Algorithm, injectedClock bool) *Script {
	if does.general() {
		of = Mixed
	}
	type told struct {
		does          Task
		of            exact.Algorithm
		injectedClock bool
	}
	key := told{does, of, injectedClock}
	if s, ok := assembled.Load(key); ok {
		return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
	}
	s, _ := assembled.LoadOrStore(key, assemble(does, of, injectedClock))
	return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
}

// assemble puts a script together.
func assemble(does Task, of exact.Algorithm, injectedClock bool) *Script {
	clock := "time"
	if injectedClock {
		clock = "clock"
	}
	a := assembly{of: []exact.Algorithm{of}, does: does}
	if of == Mixed {
		a.of = slices.Collect(exact.All())
	}
	switch does {
	case Release:
		a.of = []exact.Algorithm{exact.Concurrent}
	case Order:
		a.include("prelude")
		a.include(clock)
	default:
		a.include("prelude")
		a.include(clock)
		a.include("functions")
	}
	a.include(does.file())
	source := a.String()
	sum := sha1.Sum([]byte(source)) // SHA-1 is how Redis names scripts
	return &Script{Source: source, Hash: hex.EncodeToString(sum[:])}
}

// assembly is a script for some algorithms that is being put together.
type assembly struct {
	strings.Builder

	of   []exact.Algorithm
	does Task
}

// include appends a file, and what it includes. Some names stand for parts of the
// algorithms' files: see prelude.lua.
func (a *assembly) include(name string) {
	switch name {
	case "functions", "holder", "hold", "strike":
		for _, algorithm := range a.of {
			a.append(section(algorithm, name))
		}
	case "observe", "store", "renumber", "adjust", "past":
		a.branch(name)
	case "meter":
		if slices.ContainsFunc(a.of, func(a exact.Algorithm) bool { return !a.Windowed() }) {
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
	for _, algorithm := range a.of {
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
