//go:build race

package simulation_test

import (
	"testing"

	"pgregory.net/rapid"
)

// What TestPlacesOfSeveralProcesses says, with the race detector, on as few histories as it needs to see each goroutine.
func TestFewHistoriesOfSeveralProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, severalProcesses) })
}
