// Package script is the Lua that decides calls and carries out settlements in Redis: whole scripts, their arguments, and
// their replies.
//
// The scripts for checks that come alone under an algorithm are whole files: those in lua/check, and in lua/reserve where a
// check reserves. The script for settlements of one charge each is a file in lua/settle. All other calls and settlements have
// one script for each task, for all algorithms.
// It is assembled from the files in lua, and stands in testdata as it is sent. All scripts have the arithmetic of package
// exact.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

//go:embed lua/*.lua lua/check/*.lua lua/reserve/*.lua lua/settle/*.lua
var lua embed.FS

// Script is the Lua of a task, for one algorithm or for all.
type Script struct {
	Source string
	Hash   string // its name for EVALSHA
}

// Mixed stands for all algorithms in the place of one: calls that mix some need it.
const Mixed = exact.None

// Task is the task of a script.
type Task uint8

// The tasks.
const (
	Decide  Task = iota // calls
	Check               // calls of one check each that do not reserve, with states as their limit leaves them
	Book                // calls of one check each that may reserve, with states as their limit leaves them
	Settle              // corrections
	Adjust              // corrections of one charge each, with states as their limit leaves them
	Reserve             // calls with checks that reserve for a time, under any algorithms
	Close               // corrections with some of such charges, under any algorithms
	Release             // corrections each of which gives back one place: see Request.Releases
	Order               // none: the order in which processes wait
	Tasks               // how many there are
)

// Settles reports whether a task is about corrections, and not about calls.
func (t Task) Settles() bool { return t == Settle || t == Adjust || t == Close || t == Release }

// Own reports whether an algorithm has a script of its own for a task: plain requests have one, and so have calls that take
// places. One script for all algorithms does all else. It makes the functions of those algorithms only that it is asked
// about, so a script for fewer algorithms would hardly be faster.
func (t Task) Own(of exact.Algorithm) bool {
	return t == Check || t == Book || t == Adjust || t == Decide && of == exact.Concurrent
}

func (t Task) file() string {
	return [Tasks]string{"decide", "check", "reserve", "settle", "settle", "reserve", "close", "release", "order"}[t]
}

// assembled are the scripts that this process has asked for. Values never become part of one, so that all stores of
// a process share them, and there are few.
var assembled sync.Map // of Scripts, by the arguments of New

// New returns the script of a task for an algorithm, or for all of them if that is Mixed. With an injected clock, which
// is for tests, the last argument of a call is the time. It may be called concurrently.
func New(does Task, of exact.Algorithm, injectedClock bool) *Script {
	if !does.Own(of) {
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

// assemble puts a script together, unless it is a whole file.
func assemble(does Task, of exact.Algorithm, injectedClock bool) *Script {
	var source string
	switch does {
	case Check, Book, Adjust:
		source = whole(does.file()+"/"+fileOf(of), injectedClock)
	case Order:
		source = whole(does.file(), injectedClock)
	default:
		source = pieced(does, of, injectedClock)
	}
	sum := sha1.Sum([]byte(source)) // SHA-1 is how Redis names scripts
	return &Script{Source: source, Hash: hex.EncodeToString(sum[:])}
}

// whole returns the script in a file.
func whole(file string, injectedClock bool) string {
	source := luaFile(file)
	if !injectedClock {
		return source
	}
	const reads = "local clock = call('TIME')\n"
	before, after, _ := strings.Cut(source, reads)
	_, after, _ = strings.Cut(after, "local grace = 2000\n")
	return before + luaFile("clock") + after
}

// pieced returns a script that is put together from pieces.
func pieced(does Task, of exact.Algorithm, injectedClock bool) string {
	clock := "time"
	if injectedClock {
		clock = "clock"
	}
	a := assembly{of: []exact.Algorithm{of}, does: does}
	if of == Mixed {
		a.of = slices.Collect(exact.All())
	}
	if does == Release {
		a.of = []exact.Algorithm{exact.Concurrent}
	} else {
		a.include("prelude")
		a.include(clock)
		a.include("uses")
		a.include("functions")
	}
	a.include(does.file())
	return a.String()
}

// assembly is a script for some algorithms that is being put together.
type assembly struct {
	strings.Builder

	of   []exact.Algorithm
	does Task
}

// include appends a file, and the files that it includes. Some names stand for parts of the algorithms' files: see
// prelude.lua.
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
	case "noting", "note", "closing":
		if !slices.ContainsFunc(a.of, exact.Algorithm.Noted) {
			return
		}
		if name != "note" {
			a.append(partOf(luaFile("notes"), "functions"))
		}
		a.append(partOf(luaFile("notes"), name))
	case "open", "returned":
		if a.does == Reserve {
			a.append(partOf(luaFile(Reserve.file()), name))
		}
	case Decide.file():
		if a.does == Decide { // else the task has told it
			a.append(luaFile("asked"))
		}
		a.append(luaFile(name))
	case Settle.file():
		text, reply, _ := strings.Cut(luaFile(name), "--- reply\n")
		a.append(text)
		if a.does == Settle {
			a.append(reply)
		}
	case "give_back":
		own := assembly{of: a.of, does: a.does}
		if a.does == Reserve { // what else is reserved for a time has not been by these scripts
			own.of = slices.DeleteFunc(slices.Clone(a.of), func(a exact.Algorithm) bool { return a.Unreserved() != "" && !Books(a) })
		}
		own.append(luaFile(name))
		_, _ = a.WriteString(own.String())
	case Reserve.file():
		text, _, _ := strings.Cut(luaFile(name), "\n--- open")
		a.append(text + "\n")
	default:
		a.append(luaFile(name))
	}
}

// branch appends a part of each algorithm's file, for the limits of that algorithm. Algorithms with the same part share
// one. If all have the same, the script need not ask which one a limit has.
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

// append appends text, with the files that its lines include.
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

// section returns a part of an algorithm's file. Sections that a meter's file lacks are those of all meters.
func section(a exact.Algorithm, name string) string {
	text := partOf(luaFile(fileOf(a)), name)
	if text == "" && !a.Windowed() && name != "functions" {
		return partOf(luaFile("meter"), name)
	}
	return text
}

// partOf returns the text below a name in a file, up to the next one.
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

// isThere reports whether an algorithm has a script of its own for a task, as a whole file.
func isThere(does Task, of exact.Algorithm) bool {
	_, err := fs.Stat(lua, "lua/"+does.file()+"/"+fileOf(of)+".lua")
	return err == nil
}

// fileOf returns the name of an algorithm's files.
func fileOf(a exact.Algorithm) string { return strings.ReplaceAll(a.String(), "-", "_") }

func luaFile(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("script: " + err.Error()) // a file that go:embed has not found
	}
	return string(text)
}
