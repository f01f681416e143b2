package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// invented are comparisons with figures that nobody has measured.
func invented() []comparison {
	round := func(checks int, redisCPU time.Duration) sample {
		return sample{
			tally:       tally{checks: checks, admitted: checks, elapsed: time.Second, p50: time.Millisecond, p99: 4 * time.Millisecond},
			allocations: uint64(4 * checks), cpu: time.Duration(checks) * 5 * time.Microsecond,
			redisCPU: time.Duration(checks) * redisCPU, redisReads: int64(checks / 10),
		}
	}
	entries := []*entry{
		{contender: contender{name: floorName}, samples: []sample{round(50_000, 8*time.Microsecond), round(40_000, 9*time.Microsecond)}},
		{contender: contender{name: leakyName, own: true}, samples: []sample{round(100_000, 4*time.Microsecond), round(88_000, 5*time.Microsecond)}},
		{contender: contender{name: redisRateName}, samples: []sample{round(30_000, 14*time.Microsecond), round(20_000, 15*time.Microsecond)}},
		{contender: contender{name: redisRateAuto}, samples: []sample{round(60_000, 9*time.Microsecond), round(50_000, 15*time.Microsecond)}},
	}
	return []comparison{{
		slug: "closed-loop-128", title: "Closed loop, 128 goroutines", text: "Everybody asks.",
		entries: entries, columns: checkColumns(),
		plots: []plotted{{"closed-loop-128", "checks per second", perSecond, floorName}},
	}}
}

func inventedReport() report {
	return newReport(
		time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC), fullProfile(),
		machine{CPU: "Abacus", Cores: 2, OS: "Linux", Go: "go1.26", Redis: "Redis 7.0.15", Modules: []module{{"example.com/limiter", "v1.2.3"}}},
		[]contender{{name: floorName, algorithm: "none", note: "Nothing."}, {name: leakyName, algorithm: "leaky", note: "Exact."}},
		invented(),
	)
}

func TestReportIsWrittenAsTheGoldenFileHasIt(t *testing.T) {
	var got bytes.Buffer
	if err := inventedReport().write(&got); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the report differs from %s; go test -update writes it anew:\n%s", golden, &got)
	}
}

func TestPlotIsXMLAndNamesItsContenders(t *testing.T) {
	c := invented()[0]
	var drawn bytes.Buffer
	if err := c.draw(c.plots[0], &drawn); err != nil {
		t.Fatal(err)
	}
	text := drawn.String()
	for decoder := xml.NewDecoder(&drawn); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{floorName, leakyName, redisRateName, "checks per second"} {
		if !strings.Contains(text, name) {
			t.Errorf("the plot lacks %q", name)
		}
	}
}

func TestEveryPlotOfTheReportIsSaved(t *testing.T) {
	directory := t.TempDir()
	if err := save(directory, inventedReport(), invented()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(directory, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	const plot = "benchmarks/closed-loop-128.svg"
	if !strings.Contains(string(text), "("+plot+")") {
		t.Errorf("the report does not show %s", plot)
	}
	if _, err := os.Stat(filepath.Join(directory, plot)); err != nil {
		t.Error(err)
	}
}
