//go:build race

package bubbletest

// raced says whether the race detector looks on.
const raced = true
