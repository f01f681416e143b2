//go:build !race

// A bubble runs its goroutines as if one after the other: make test draws most histories without the race detector, which takes six times as long.

package simulation_test

import (
	"testing"

	"pgregory.net/rapid"
)

// However processes take, wait for and give back places, and whatever becomes of their calls, of their links and of
// themselves:
//
//   - never more places are held than there are, and tokens grow
//   - whoever believes to hold places holds them
//   - what a dead process held is free after exactly the lease
//   - a process that is well keeps nothing that it was not given, and gives back what it does not know to have
//   - waiters of a process who want the same are served in their order, and at once when the process itself has given
//     places back
//   - no waiter waits for longer than a poll while its places are free, unless another one has been overtaken for its patience
//   - in the end all places are free, and no goroutine is left
func TestPlacesOfSeveralProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, severalProcesses) })
}
