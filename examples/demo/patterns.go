package main

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pattern is a way for requests to come.
type pattern struct {
	Name  string
	Title string
	About string
	// schedule returns when they come, after the start, in order: for a limit of n in
	// each window.
	schedule func(n int, window time.Duration, own []press) ([]time.Duration, error)
}

var patterns = []pattern{
	{"boundary", "Boundary burst", "One request opens the fixed window; then one burst just before it closes, and one just after.", boundaryBurst},
	{"steady", "Steady", "An even stream at twice the rate.", steady},
	{"burst", "Bursts", "Twice the limit at one instant, and again one and a half windows later.", bursts},
	{"random", "Random", "Requests at random (a Poisson process) at twice the rate.", random},
	{"recorded", "Recorded trace", "A browser that loads a page with twenty images, and loads it again: recorded, and sent as it was.", recorded},
	{"own", "Your own requests", "What you have sent from the cards lately, at the pace at which you sent it.", own},
}

// Bounds of a comparison.
const (
	mostCompared     = 20 // events in a window
	shortestCompared = time.Second
	longestCompared  = 5 * time.Second
	mostScheduled    = 150
	longestSchedule  = 3 * longestCompared
)

// findPattern returns the pattern of a name.
func findPattern(name string) (pattern, bool) {
	for _, p := range patterns {
		if p.Name == name {
			return p, true
		}
	}
	return pattern{}, false
}

// Not a tenth on either side: a bucket of five would have drained exactly one event
// in between, give or take the blink of an eye.
func boundaryBurst(n int, window time.Duration, _ []press) ([]time.Duration, error) {
	schedule := []time.Duration{0}
	schedule = append(schedule, slices.Repeat([]time.Duration{window * 865 / 1000}, n-1)...)
	return append(schedule, slices.Repeat([]time.Duration{window * 1135 / 1000}, n)...), nil
}

func steady(n int, window time.Duration, _ []press) ([]time.Duration, error) {
	schedule := make([]time.Duration, 6*n)
	for i := range schedule {
		schedule[i] = time.Duration(i) * window / time.Duration(2*n)
	}
	return schedule, nil
}

func bursts(n int, window time.Duration, _ []press) ([]time.Duration, error) {
	return append(
		slices.Repeat([]time.Duration{window / 10}, 2*n),
		slices.Repeat([]time.Duration{window * 16 / 10}, 2*n)...), nil
}

func random(n int, window time.Duration, _ []press) ([]time.Duration, error) {
	mean := float64(window) / float64(2*n)
	var schedule []time.Duration
	for at := time.Duration(0); at < 3*window && len(schedule) < mostScheduled; at += time.Duration(rand.ExpFloat64() * mean) {
		schedule = append(schedule, at)
	}
	return schedule, nil
}

// trace is when requests of a browser reached a server: milliseconds, one a line.
//
//go:embed trace.txt
var trace string

func recorded(int, time.Duration, []press) ([]time.Duration, error) {
	var schedule []time.Duration
	for line := range strings.Lines(trace) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return nil, fmt.Errorf("the recorded trace: %w", err)
		}
		schedule = append(schedule, time.Duration(at*float64(time.Millisecond)))
	}
	return schedule, nil
}

func own(_ int, _ time.Duration, presses []press) ([]time.Duration, error) {
	if len(presses) == 0 {
		return nil, errors.New("there is nothing of yours to send again: send a few requests from the cards first")
	}
	last := presses[len(presses)-1].at
	var schedule []time.Duration
	for _, p := range slices.Backward(presses) {
		if last-p.at > longestSchedule || len(schedule)+p.count > mostScheduled {
			break
		}
		schedule = append(schedule, slices.Repeat([]time.Duration{p.at}, p.count)...)
	}
	slices.Reverse(schedule)
	start := schedule[0]
	for i := range schedule {
		schedule[i] -= start
	}
	return schedule, nil
}
