package script

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

var rewriteScripts = flag.Bool("rewrite-scripts", false, "write testdata")

// The scripts stand in testdata as they are sent: whole, so that they can be read, checked by a
// linter, and run by redis-cli --eval. go test ./core/internal/script -rewrite-scripts writes them.
func TestScriptsStandInFiles(t *testing.T) {
	scripts := make(map[string]string)
	for does := range Tasks {
		if does == Check || does == Book || does == Adjust || does == Order { // these are files already
			continue
		}
		scripts[does.file()+".lua"] = New(does, Mixed, false).Source
	}
	scripts["decide_concurrent.lua"] = New(Decide, exact.Concurrent, false).Source
	const directory = "testdata"
	if *rewriteScripts {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, source := range scripts {
			if err := os.WriteFile(filepath.Join(directory, name), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(directory + "/*.lua")
	if err != nil || len(files) != len(scripts) {
		t.Errorf("%d files stand there, want %d: %v", len(files), len(scripts), err)
	}
	for name, source := range scripts {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.ReplaceAll(string(text), "\r\n", "\n"); got != source {
			t.Errorf("%s is not what is sent: run go test ./core/internal/script -rewrite-scripts", name)
		}
	}
}

// However limits are mixed, a server is asked to keep a few scripts.
func TestScriptsAreFew(t *testing.T) {
	const most = 28 // of the 35 that there may ever be
	kept := make(map[string]bool)
	for does := range Tasks {
		for of := range exact.All() {
			if does == Check && !Checks(of) || does == Book && !Books(of) || does == Adjust && !Adjusts(of) {
				continue
			}
			kept[New(does, of, false).Hash] = true
			if does != Check && does != Book && does != Adjust {
				kept[New(does, Mixed, false).Hash] = true
			}
		}
	}
	if len(kept) > most {
		t.Errorf("%d scripts can be kept, want at most %d", len(kept), most)
	}
}

// A script can be read at once: a meter's has no more than 100 lines of code, a window's no more than 130, and a log's no
// more than 160.
func TestScriptsAreShort(t *testing.T) {
	for does, suits := range map[Task]func(exact.Algorithm) bool{Check: Checks, Book: Books, Adjust: Adjusts} {
		for of := range exact.All() {
			if !suits(of) {
				continue
			}
			most, lines := 100, 0
			switch {
			case of.Logs():
				most = 160
			case of.Windowed():
				most = 130
			}
			for line := range strings.Lines(New(does, of, false).Source) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
					lines++
				}
			}
			if lines > most {
				t.Errorf("%s/%s.lua has %d lines of code, want at most %d", does.file(), fileOf(of), lines, most)
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
		r.SetChecks(c.Groups, 1, false, nil, func(key string, _ *exact.Spec) string { return key })
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
