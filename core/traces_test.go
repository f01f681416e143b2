package core_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

// TestTraces reads testdata/traces, where the behaviour of each algorithm stands
// to be read. Both stores must print the same; go test -run Traces -rewrite writes
// down what they print.
//
// The directive "limits" names limits, one a line, and starts anew with an empty
// store. "ask" asks a call a line, each at an instant after the start (which
// may be before the last one):
//
//	0s    login            one unit under the limit called login
//	1s    login*3 hour     three under one and one under another, all or nothing
//	1s    ~login hour      the first is a shadow
//	2s    peek login       charges nothing
//	2s    reset login
//	0s +900ms x5 login     at 0s, 900ms, 1.8s, …
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	stores := []struct {
		name string
		make storetest.Factory
	}{{"memory", newMemory}, {"redis", newRedis(t)}}
	for _, file := range files {
		for _, store := range stores {
			name := strings.TrimSuffix(filepath.Base(file), ".trace") + " on " + store.name
			t.Run(name, func(t *testing.T) {
				if _, err := os.Stat(file); err != nil {
					t.Fatal(err)
				}
				tr := &tracer{store: store.make}
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
					switch d.Cmd {
					case "limits":
						return tr.define(t, d)
					case "ask":
						return tr.ask(t, d)
					}
					d.Fatalf(t, "no directive is called %q", d.Cmd)
					return ""
				})
			})
		}
	}
}

// tracer runs the directives of one file.
type tracer struct {
	store   storetest.Factory
	limiter *core.Limiter
	now     time.Time
	limits  map[string]core.Quota
}

var traceStart = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func (tr *tracer) define(t *testing.T, d *datadriven.TestData) string {
	tr.limiter = core.New(tr.store(t, func() time.Time { return tr.now }))
	tr.limits = make(map[string]core.Quota)
	for line := range strings.Lines(d.Input) {
		name, text, _ := strings.Cut(line, "=")
		limit, err := core.ParseLimit(strings.TrimSpace(text))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		tr.limits[strings.TrimSpace(name)] = limit.(core.Quota)
	}
	return ""
}

func (tr *tracer) ask(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		at, step, times := parseDuration(t, words[0]), time.Duration(0), 1
		words = words[1:]
		if strings.HasPrefix(words[0], "+") {
			step = parseDuration(t, words[0][1:])
			times, _ = strconv.Atoi(strings.TrimPrefix(words[1], "x"))
			words = words[2:]
		}
		for range times {
			tr.now = traceStart.Add(at)
			fmt.Fprintf(&out, "%-7v %s\n", at, tr.answer(t, words))
			at += step
		}
	}
	return out.String()
}

func parseDuration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (tr *tracer) answer(t *testing.T, words []string) string {
	const key = "client"
	switch words[0] {
	case "peek":
		limit := tr.limit(t, words[1])
		d, err := tr.limiter.Peek(t.Context(), key, limit)
		if err != nil {
			t.Fatal(err)
		}
		return "peek " + words[1] + " " + describe(d)
	case "reset":
		if err := tr.limiter.Reset(t.Context(), key, tr.limit(t, words[1])); err != nil {
			t.Fatal(err)
		}
		return "reset " + words[1]
	}
	checks := make([]core.Check, len(words))
	for i, word := range words {
		name, shadow := strings.CutPrefix(word, "~")
		name, cost, found := strings.Cut(name, "*")
		if !found {
			cost = "1"
		}
		n, err := strconv.Atoi(cost)
		if err != nil {
			t.Fatal(err)
		}
		checks[i] = core.Check{Key: key, Limit: tr.limit(t, name), Cost: n, Shadow: shadow}
		if n == 0 {
			checks[i].Mode = core.Look
		}
	}
	decisions, err := tr.limiter.AllowAll(t.Context(), checks...)
	if err != nil {
		return err.Error()
	}
	answers := make([]string, len(words))
	for i, word := range words {
		answers[i] = word + " " + describe(decisions[i])
	}
	return strings.Join(answers, "\n        ")
}

func (tr *tracer) limit(t *testing.T, name string) core.Quota {
	limit, ok := tr.limits[name]
	if !ok {
		t.Fatalf("no limit is called %q", name)
	}
	return limit
}

// describe prints what of a decision is not zero.
func describe(d core.Decision) string {
	var b strings.Builder
	b.WriteString("no")
	if d.Allowed {
		b.Reset()
		b.WriteString("ok")
	}
	fmt.Fprintf(&b, " left=%d", d.Remaining)
	for _, wait := range []struct {
		name string
		wait time.Duration
	}{{"delay", d.Delay}, {"retry", d.RetryAfter}, {"next", d.NextAfter}, {"reset", d.ResetAfter}} {
		switch wait.wait {
		case 0:
		case core.Never:
			fmt.Fprintf(&b, " %s=never", wait.name)
		default:
			fmt.Fprintf(&b, " %s=%v", wait.name, wait.wait)
		}
	}
	return b.String()
}
