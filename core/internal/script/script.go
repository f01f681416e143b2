// Package script is the Lua that decides calls and carries out settlements in Redis: whole scripts, their arguments, and
// their replies.
//
// The scripts for checks that come alone under an algorithm are whole files: those in lua/check, and in lua/reserve where a
// check reserves. The script for settlements of one charge each is a file in lua/settle. All other calls and settlements have
// one script for each task, for all algorithms: a file in lua, which requires modules, as Lua programs do. A module is a whole
// file in lua/modules: one for each algorithm, and some that these share. All scripts have the arithmetic of package exact.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

//go:embed lua/*.lua lua/*/*.lua
var lua embed.FS

// Script is the Lua of a task, for one algorithm or for all.
type Script struct {
	Source string
	Hash   string // its name for EVALSHA
}

// Mixed stands for all algorithms in the place of one: calls that mix some need it.
const Mixed = exact.None

// Task is the task of a script: its file in lua has the same name. Where each algorithm has a script of its own for a task, these
// are in a directory: [OwnCheck], [OwnReserve] and [OwnSettle].
type Task uint8

// The tasks.
const (
	Decide     Task = iota // calls
	OwnCheck               // calls of one check each that do not reserve, with states as their limit leaves them
	OwnReserve             // calls of one check each that may reserve, with states as their limit leaves them
	Settle                 // corrections
	OwnSettle              // corrections of one charge each, with states as their limit leaves them
	Reserve                // calls with checks that reserve for a time, under any algorithms
	Close                  // corrections with some of such charges, under any algorithms
	Release                // corrections each of which gives back one place: see Request.Releases
	Order                  // none: the order in which processes wait
	Tasks                  // how many there are
)

// Settles reports whether a task is about corrections, and not about calls.
func (t Task) Settles() bool { return t == Settle || t == OwnSettle || t == Close || t == Release }

// Own reports whether each algorithm has a script of its own for a task: plain requests have one. One script for all algorithms
// does all else.
func (t Task) Own() bool { return t == OwnCheck || t == OwnReserve || t == OwnSettle }

// directory has the name of a task's file, or of the directory of its files.
var directory = [Tasks]string{"decide", "check", "reserve", "settle", "settle", "reserve", "close", "release", "order"}

// fileNameOf returns the name of the file of a script.
func fileNameOf(does Task, of exact.Algorithm) string {
	if does.Own() {
		return directory[does] + "/" + moduleFile(of.String())
	}
	return directory[does]
}

// made are the scripts that this process has asked for. Values never become part of one, so that all stores of
// a process share them, and there are few.
var made sync.Map // of Scripts, by the arguments of New

// New returns the script of a task for an algorithm, or for all of them if that is Mixed. With an injected clock, which
// is for tests, the last argument of a call is the time. It may be called concurrently.
func New(does Task, of exact.Algorithm, injectedClock bool) *Script {
	if !does.Own() {
		of = Mixed
	}
	type told struct {
		does          Task
		of            exact.Algorithm
		injectedClock bool
	}
	key := told{does, of, injectedClock}
	if s, ok := made.Load(key); ok {
		return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
	}
	s, _ := made.LoadOrStore(key, newScript(does, of, injectedClock))
	return s.(*Script) //nolint:forcetypeassert // the map holds nothing else
}

// newScript reads a script: a whole file, or one with the modules that it requires.
func newScript(does Task, of exact.Algorithm, injectedClock bool) *Script {
	file := fileNameOf(does, of)
	source := luaFile(file)
	if modules := required(source); len(modules) > 0 {
		source = withModules(file, modules, injectedClock)
	} else if injectedClock {
		source = injected(source)
	}
	sum := sha1.Sum([]byte(source)) // SHA-1 is how Redis names scripts
	return &Script{Source: source, Hash: hex.EncodeToString(sum[:])}
}

// The lines by which scripts read the clock, and those by which they are told the time in tests: it is the last argument. Keys
// expire in real time meanwhile, so they are kept for an hour longer.
const (
	readsClock = "local clock = call('TIME')\nlocal now = clock[1] * 1000000 + clock[2]\nlocal grace = 2000\n"
	toldTime   = "local now = tonumber(ARGV[#ARGV])\nlocal grace = 3602000 + call('TIME')[1] * 1000 - (now - now % 1000) / 1000\n"
)

// injected returns a text that is told the time in place of reading the clock.
func injected(source string) string { return strings.Replace(source, readsClock, toldTime, 1) }

// requires are the names of modules in a text, and corrects is that for the corrections of an algorithm, which its own module
// names. A limit requires the module of its algorithm. Both begin with a text that Go finds fast: the first call of a process waits
// for its script.
var (
	requires = regexp.MustCompile(`require\((?:'([a-z_-]+)'|algorithm)\)`)
	corrects = regexp.MustCompile(`corrections = '([a-z_]+)'`)
)

// required returns the names of the modules that a text requires, and of the modules that these require.
func required(source string) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for next := 0; ; next++ {
		for _, found := range requires.FindAllStringSubmatch(source, -1) {
			if found[1] != "" {
				add(found[1])
				continue
			}
			for of := range exact.All() {
				add(of.String())
			}
		}
		for _, found := range corrects.FindAllStringSubmatch(source, -1) {
			add(found[1])
		}
		if next == len(names) {
			return names
		}
		source = module(names[next])
	}
}

// withModules returns a script with the modules that it requires in front of it. Each text is as it stands in its file. Redis
// has no require of its own. A module is run when it is first required: a script makes its functions anew in each run, which takes
// long, and makes none for algorithms that no check is under.
func withModules(file string, names []string, injects bool) string {
	var b strings.Builder
	b.WriteString("-- " + file + `.lua with the modules that it requires.
local modules, run = {}, nil
local function require(name)
  local module = modules[name] or run(name)
  modules[name] = module
  return module
end

function run(name)
`)
	branch := "if"
	for _, name := range names {
		text := module(name)
		if injects {
			text = injected(text)
		}
		fmt.Fprintf(&b, "%s name == '%s' then\n%s", branch, name, text)
		branch = "elseif"
	}
	b.WriteString("end\n") // of the branches
	b.WriteString("end\n\n" + luaFile(file))
	return b.String()
}

// module returns the text of a module.
func module(name string) string { return luaFile("modules/" + moduleFile(name)) }

// isThere reports whether an algorithm has a script of its own for a task.
func isThere(does Task, of exact.Algorithm) bool {
	_, err := fs.Stat(lua, "lua/"+fileNameOf(does, of)+".lua")
	return err == nil
}

// moduleFile returns the name of a module's file. Where the name of an algorithm has a dash, that has an underscore.
func moduleFile(name string) string { return strings.ReplaceAll(name, "-", "_") }

func luaFile(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("script: " + err.Error()) // a file that go:embed has not found
	}
	return string(text)
}
