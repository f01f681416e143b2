package script

import (
	"flag"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	interpreter "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// A script is its file as that stands, behind the modules that it requires, as theirs stand.
func TestScriptsAreTheirFiles(t *testing.T) {
	used := make(map[string]bool)
	for does, of := range scripts() {
		file := fileNameOf(does, of)
		source, text := New(does, of, false).Source, luaFile(file)
		modules := required(text)
		if frame, ok := strings.CutSuffix(source, text); !ok || len(modules) == 0 && frame != "" {
			t.Errorf("%s.lua is not sent as it stands", file)
		}
		for _, name := range modules {
			used[strings.ReplaceAll(name, "-", "_")+".lua"] = true
			if n := strings.Count(source, "if name == '"+name+"' then\n"+module(name)); n != 1 {
				t.Errorf("the script of %s.lua has the module %q %d times", file, name, n)
			}
		}
	}
	files, err := fs.ReadDir(lua, "lua/modules")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !used[file.Name()] {
			t.Errorf("no script requires %s", file.Name())
		}
	}
}

var rewriteHashes = flag.Bool("rewrite-hashes", false, "write testdata/hashes.txt")

// Redis' slow log and its errors name a script by its hash alone. testdata/hashes.txt has the file of each: after a change,
// go test ./core/internal/script -rewrite-hashes writes it.
func TestHashesAreWritten(t *testing.T) {
	var lines []string
	for does, of := range scripts() {
		lines = append(lines, New(does, of, false).Hash+" "+fileNameOf(does, of)+".lua\n")
	}
	slices.Sort(lines)
	const file = "testdata/hashes.txt"
	if *rewriteHashes {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if got := strings.ReplaceAll(string(text), "\r\n", "\n"); err != nil || got != strings.Join(lines, "") {
		t.Errorf("%s has other hashes: run go test ./core/internal/script -rewrite-hashes (%v)", file, err)
	}
}

// A file can be read on its own: it sets no variables for others, and finds none but those of Lua and Redis.
func TestFilesShareNoVariables(t *testing.T) {
	known := strings.Fields("ARGV KEYS error ipairs math next pairs pcall redis require select string table tonumber tostring type unpack")
	var globals func(file string, proto *interpreter.FunctionProto)
	globals = func(file string, proto *interpreter.FunctionProto) {
		for _, code := range proto.Code {
			operation := int(code >> 26) // as in the opcode.go of the interpreter
			if operation != interpreter.OP_GETGLOBAL && operation != interpreter.OP_SETGLOBAL {
				continue
			}
			name := proto.Constants[code&0x3ffff].String()
			if operation == interpreter.OP_SETGLOBAL || !slices.Contains(known, name) {
				t.Errorf("%s shares the variable %q", file, name)
			}
		}
		for _, inner := range proto.FunctionPrototypes {
			globals(file, inner)
		}
	}
	checked := 0
	err := fs.WalkDir(lua, "lua", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(lua, file)
		if err != nil {
			return err
		}
		chunk, err := parse.Parse(strings.NewReader(string(text)), file)
		if err != nil {
			return err
		}
		proto, err := interpreter.Compile(chunk, file)
		if err != nil {
			return err
		}
		globals(file, proto)
		checked++
		return nil
	})
	if err != nil || checked < 40 {
		t.Errorf("%d files were checked: %v", checked, err)
	}
}

// scripts returns the tasks and the algorithms of all scripts.
func scripts() iter.Seq2[Task, exact.Algorithm] {
	return func(yield func(Task, exact.Algorithm) bool) {
		for does := range Tasks {
			if !does.Own() && !yield(does, Mixed) {
				return
			}
			for of := range exact.All() {
				if does.Own() && isThere(does, of) && !yield(does, of) {
					return
				}
			}
		}
	}
}

// However limits are mixed, a server is asked to keep a few scripts.
func TestScriptsAreFew(t *testing.T) {
	const most = 28 // of the 35 that there may ever be
	kept := make(map[string]bool)
	for does, of := range scripts() {
		kept[New(does, of, false).Hash] = true
	}
	if len(kept) > most {
		t.Errorf("%d scripts can be kept, want at most %d", len(kept), most)
	}
}

// A script can be read at once: a meter's has no more than 100 lines of code, a window's, or that of a cap and a share, no
// more than 130, and a log's no more than 160. Nor has a module more than 190.
func TestFilesAreShort(t *testing.T) {
	linesOf := func(source string) (lines int) {
		for line := range strings.Lines(source) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				lines++
			}
		}
		return lines
	}
	for does, of := range scripts() {
		most := 100
		switch {
		case of != Mixed && of.Logs():
			most = 160
		case of != Mixed && (of.Windowed() || of.Shares()):
			most = 130
		}
		file := fileNameOf(does, of)
		if lines := linesOf(luaFile(file)); lines > most {
			t.Errorf("%s.lua has %d lines of code, want at most %d", file, lines, most)
		}
		for _, name := range required(luaFile(file)) {
			if lines := linesOf(module(name)); lines > 190 {
				t.Errorf("the module %q has %d lines of code", name, lines)
			}
		}
	}
}

// A batch is full of sliding logs sooner than of buckets, since Redis takes longer for them.
func TestRequestsWeighWhatRedisTakesForThem(t *testing.T) {
	weigh := func(a exact.Algorithm, checks, units int) int {
		spec := exact.NewSpec(exact.Params{Algorithm: a, Capacity: 1000, Events: 1000, Period: time.Hour}, nil)
		list := make([]call.Check, checks)
		for i := range list {
			list[i] = call.Check{Key: strconv.Itoa(i), Spec: spec, Units: units}
		}
		var c call.Call
		c.Set(checks, func(place int, own *call.Check) { *own = list[place] })
		var r Request
		r.SetChecks(c.Groups, 1, false, nil, "ratelimit")
		return r.Weight(1)
	}
	for _, c := range []struct {
		of                  exact.Algorithm
		checks, units, want int
	}{{exact.Leaky, 3, 1, 3}, {exact.SlidingWindow, 3, 500, 3}, {exact.SlidingLog, 3, 1, 12}, {exact.SlidingLog, 2, 500, 18}} {
		if got := weigh(c.of, c.checks, c.units); got != c.want {
			t.Errorf("%d checks of %d units under %s weigh %d, want %d", c.checks, c.units, c.of, got, c.want)
		}
	}
}
