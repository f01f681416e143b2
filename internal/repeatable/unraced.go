//go:build !race

package repeatable

// Raced says whether the race detector looks on, which makes a test take ten times as long. The gate draws all examples without
// it, so a test with many that say nothing new about races draws fewer beside it.
const Raced = false
