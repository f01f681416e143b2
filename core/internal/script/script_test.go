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
// linter, and run by redis-cli --eval. Those for fewer algorithms leave out what is the others'. go test ./core/internal/script -rewrite-scripts writes them.
func TestScriptsStandInFiles(t *testing.T) {
	scripts := make(map[string]string)
	for does := range Tasks {
		if does == Check || does == Adjust { // these are files already
			continue
		}
		scripts[does.file()+".lua"] = New(does, Mixed, false).Source
	}
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
