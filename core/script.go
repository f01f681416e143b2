package core

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
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

func (a algorithm) set() set { return 1 << (a - 1) }

const (
	allSets   = 1 << (algorithms - 1)
	allMeters = 1<<(leaky-1) | 1<<(shaping-1) | 1<<(tokenBucket-1) | 1<<(gcra-1)
)

// task is what a script does with the algorithms it has.
type task uint8

const (
	decide task = iota
	giveBack
	tasks // how many there are
)

func (t task) file() string { return [tasks]string{"decide", "give_back"}[t] }

// newScript assembles the script for a set of algorithms from the files it needs.
// Values never become part of it, so there are no more scripts than sets.
func newScript(of set, injectedClock bool, does task) *script {
	files := []string{"time", "prelude"}
	if injectedClock {
		files[0] = "clock"
	}
	if of&allMeters != 0 {
		files = append(files, "meter")
	}
	for a := none + 1; a < algorithms; a++ {
		if of&a.set() != 0 {
			files = append(files, strings.ReplaceAll(a.String(), "-", "_"))
		}
	}
	var source strings.Builder
	for _, file := range append(files, does.file()) {
		text, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("core: " + err.Error()) // a file that go:embed has not found
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String())) // SHA-1 is how Redis names scripts
	return &script{source: source.String(), hash: hex.EncodeToString(sum[:])}
}

// appendDecide appends what decide.lua expects to be told of an ask.
func (a *ask) appendDecide(arguments []any) []any {
	charge := "0"
	if a.charge {
		charge = "1"
	}
	arguments = append(arguments, a.check.Limit.algorithm.String(), charge)
	return a.appendNumbers(arguments)
}

// appendGiveBack appends what give_back.lua expects to be told of an ask that was
// charged at an instant.
func (a *ask) appendGiveBack(arguments []any, at int64) []any {
	arguments = append(arguments, a.check.Limit.algorithm.String())
	return append(a.appendNumbers(arguments), a.usage[0], at)
}

func (a *ask) appendNumbers(arguments []any) []any {
	l := &a.check.Limit
	pace := l.units.drain
	if l.units.window > 0 {
		pace = l.units.window
	}
	return append(arguments, a.unitsAsked(), l.units.capacity, pace, l.units.tick, l.numbers())
}

// unitsAsked returns the cost in the limit's units, or one more than the capacity
// if the cost exceeds it. A check that costs nothing has nothing to fit.
func (a *ask) unitsAsked() int64 {
	l := &a.check.Limit
	if a.check.Cost == 0 {
		return 0
	}
	if a.cost > l.capacity {
		return l.units.capacity + 1
	}
	return int64(a.cost) * l.units.weight
}

// numbers returns what a named limit leaves beside its state, so that the state
// can be understood after the numbers have changed. The state of an unnamed limit
// has no need of it, and neither have the instants of a log.
func (l *Limit) numbers() string {
	if l.name == "" {
		return ""
	}
	u := &l.units
	switch l.algorithm {
	case fixedWindow:
		return strconv.FormatInt(u.window, 10)
	case slidingWindow:
		return fmt.Sprintf("%d %d", u.window, u.tick)
	case slidingLog:
		return ""
	default:
		return fmt.Sprintf("%d %d %d %d", u.capacity, u.weight, u.drain, u.tick)
	}
}

// observed is how many numbers the script replies for a check of an algorithm.
func (a algorithm) observed() int {
	switch a {
	case fixedWindow:
		return 2
	case slidingWindow:
		return 3
	case slidingLog:
		return 4
	default:
		return 1
	}
}
