// Package repeatable lets random tests that do not draw from rapid be repeated as those are that do:
// by the flag -rapid.seed, or by the variable RAPID_SEED in the environment.
package repeatable

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // has the flag
)

// Random returns a source of random numbers for a test, and logs the flag that repeats them. They are
// other ones in every run, unless a seed is given. The source is not safe for concurrent use: a test of
// several goroutines gives each a source of its own, from [Split].
func Random(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	if err != nil {
		tb.Fatalf("repeatable: the flag -rapid.seed: %v", err)
	}
	for seed == 0 { // as rapid has it, 0 asks for another one
		seed = rand.Uint64()
	}
	tb.Logf("-rapid.seed=%d repeats these random numbers", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Split returns a source that is determined by the next numbers of another, and independent of it
// from then on.
func Split(random *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
}
