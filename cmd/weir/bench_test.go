package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
	"github.com/weir-go/ratelimit/cmd/weir/internal/replay"
	"github.com/weir-go/ratelimit/cmd/weir/internal/shoptest"
	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
	"github.com/weir-go/ratelimit/policies"
)

// shopLog writes the log of a shop and returns its name.
func shopLog(tb testing.TB, days, people int) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	if err := shoptest.Write(f, 1, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), days, people); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return name
}

// A log, and its requests a second time: lines a second on all processors, and the heap that is still in use at the end.
func BenchmarkRecommend(b *testing.B) {
	name := shopLog(b, 2, 8000)
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	var lines int64
	var heap uint64
	for b.Loop() {
		tracker := demand.NewTracker(0)
		recording := arrival.NewRecording(tracker, arrival.MostRecorded)
		summary, err := arrival.Read(b.Context(), []string{name}, arrival.Options{Keep: demand.Keep}, nil, recording)
		if err != nil {
			b.Fatal(err)
		}
		found := tracker.Demand()
		replayed := replay.New(found, found.Propose(10*time.Minute, summary.Span(), 10*time.Minute), time.UTC)
		if err := recording.Play(b.Context(), new(arrival.Progress), 0, replayed.Parts()...); err != nil {
			b.Fatal(err)
		}
		if err := recording.Close(); err != nil {
			b.Fatal(err)
		}
		lines += summary.Lines
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = m.HeapAlloc
		runtime.KeepAlive(replayed)
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(float64(heap)/(1<<20), "heap-MB")
}

// A log through two limits of addresses: lines a second on all processors.
func BenchmarkSimulate(b *testing.B) {
	name := shopLog(b, 2, 8000)
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	document, err := policies.Parse([]byte(`
limits: {all: "leaky 100, 20/s", posts: "gcra 10, 10/m"}
policies:
  - {limit: all, key: ip}
  - {match: POST /orders, limit: posts, key: ip}
`))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	var lines int64
	for b.Loop() {
		simulated, err := simulate.New(document, simulate.Options{Plan: -1, Keys: 1_000_000})
		if err != nil {
			b.Fatal(err)
		}
		summary, err := arrival.Read(b.Context(), []string{name}, arrival.Options{Requests: true}, nil, simulated)
		if err != nil {
			b.Fatal(err)
		}
		if result := simulated.Result(func(s string) string { return s }, time.UTC); result.Requests == 0 {
			b.Fatal("no request was decided")
		}
		lines += summary.Lines
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}
