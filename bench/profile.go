package main

import "time"

// profile is how long and how much is measured. The shorter one shows that
// everything runs, and roughly the result.
type profile struct {
	Name    string
	Rounds  int
	loop    time.Duration // of a closed loop
	lone    time.Duration // of one with a single goroutine
	warmup  time.Duration // before each
	paced   time.Duration // of the paced callers
	http    time.Duration // of the HTTP load
	asked   time.Duration // of the load on services for Envoy
	names   int           // that the closed loops choose from
	usedUp  int           // requests an hour of the limit that is used up
	classic int           // checks of the classic row
	million int           // keys of the scenario with very many
	sized   int           // keys of the measurement of sizes
	lines   int           // of the access log that is read
	things  []int         // that lie in a key
}

func fullProfile() profile {
	return profile{
		Name: "full", Rounds: 9,
		loop: 200 * time.Millisecond, lone: 600 * time.Millisecond, warmup: 50 * time.Millisecond, paced: 400 * time.Millisecond, http: 400 * time.Millisecond,
		asked: time.Second,
		names: 10_000, usedUp: 20_000, classic: 10_000, million: 1_000_000, sized: 100_000, lines: 10_000_000,
		things: []int{1_000, 10_000, 100_000},
	}
}

func quickProfile() profile {
	return profile{
		Name: "quick", Rounds: 3,
		loop: 40 * time.Millisecond, lone: 100 * time.Millisecond, warmup: 10 * time.Millisecond, paced: 120 * time.Millisecond, http: 100 * time.Millisecond,
		asked: 300 * time.Millisecond,
		names: 10_000, usedUp: 20_000, classic: 1_000, million: 30_000, sized: 10_000, lines: 300_000,
		things: []int{1_000, 10_000},
	}
}

// smokeProfile asks everything once or so. Its figures mean nothing.
func smokeProfile() profile {
	return profile{
		Name: "smoke", Rounds: 1,
		loop: 2 * time.Millisecond, lone: 2 * time.Millisecond, warmup: 0, paced: 10 * time.Millisecond, http: 10 * time.Millisecond,
		asked: 10 * time.Millisecond,
		names: 10, usedUp: 200, classic: 100, million: 200, sized: 200, lines: 4_000,
		things: []int{100},
	}
}
