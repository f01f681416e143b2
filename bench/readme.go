package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// The figures of the README stand between these lines, and are written with the report.
const (
	figuresBegin = "<!-- begin of the figures -->\n"
	figuresEnd   = "<!-- end of the figures -->\n"
)

// readmeFigures writes the figures of the README, from the same run as the report.
func readmeFigures(r report, comparisons []comparison) string {
	of := func(slug string) []*entry {
		for _, c := range comparisons {
			if c.slug == slug {
				return c.entries
			}
		}
		return nil
	}
	var text strings.Builder
	write := func(format string, arguments ...any) { _, _ = fmt.Fprintf(&text, format, arguments...) }
	write("Medians of %d rounds on %d shared cores with %s on the same machine, beside redis_rate and beside redis_rate over go-redis' own\n"+
		"`AutoPipeline`, which its users switch on with one line; only ratios mean anything elsewhere. ↑: more is better; ↓: less is. In brackets stands\n"+
		"the middle half of the rounds. Where it is wider than a factor of %v, the figure is %s.\n\n",
		r.Profile.Rounds, r.Machine.Cores, r.Machine.Redis, widest, unstable)
	write("| what | × redis_rate | × redis_rate over `AutoPipeline` |\n|---|---|---|\n")
	for _, row := range []struct {
		what, slug string
		of         metric
		prefix     string
	}{
		{"checks a second, 128 goroutines", "closed-loop-128", perSecond, ""},
		{"p99 latency of 256 paced callers", "paced", p99, ""},
		{"requests a second behind net/http, 128 connections", "http", perSecond, netHTTP + ", "},
		{"processor time of Redis per check, 128 goroutines", "closed-loop-128", redisCPUEach, ""},
		{"wall time of a lone check", "closed-loop-1", secondsEach, ""},
	} {
		entries := of(row.slug)
		own := samplesOf(entries, row.prefix+leakyName)
		against := func(name string) string { return showRatio(ratio(row.of, own, samplesOf(entries, row.prefix+name))) }
		write("| %s%s | %s | %s |\n", row.what, row.of.better, against(redisRateName), against(redisRateAuto))
	}
	show := func(slug, name string, measured metric, format func(float64) string) string {
		return showMedian(measured, spreadOf(each(samplesOf(of(slug), name), measured)), format)
	}
	write("\nOne check in memory: %s, %s allocations. One check of a lease with `Over: 0.1`: %s. The middleware in memory, wall time ×\n"+
		"httprate with the same headers on both ↓: %s.\n",
		show("memory-1", memoryName, secondsEach, showTime), show("memory-1", memoryName, allocationsEach, showCount),
		show("leases-1", leasedName, secondsEach, showTime),
		showRatio(ratio(secondsEach, samplesOf(of("middleware-in-memory"), netHTTP+", "+ownLegacy), samplesOf(of("middleware-in-memory"), othersLegacyN))))
	return text.String()
}

// saveFigures writes figures into a README, between the lines where they stand.
func saveFigures(path, figures string) error {
	old, err := os.ReadFile(path) //nolint:gosec // it is this project's
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	before, rest, began := strings.Cut(string(old), figuresBegin)
	_, after, ended := strings.Cut(rest, figuresEnd)
	if !began || !ended {
		return fmt.Errorf("bench: %s has no place for the figures", path)
	}
	if err := os.WriteFile(path, []byte(before+figuresBegin+figures+figuresEnd+after), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// saveAs writes figures into a file of their own.
func saveAs(path, figures string) error {
	return saveTo(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, figures); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		return nil
	})
}
