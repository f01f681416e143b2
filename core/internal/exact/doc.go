// Package exact is the arithmetic of limits: every algorithm, the state that it keeps of a key, and the units of a charge
// that may still be given back. It is pure: numbers go in, and numbers come out. It knows no store, no lock and no clock.
//
// A [Spec] is a limit in whole numbers. It observes a [State] at an instant and returns the used units in a [Usage]. All
// answers about a check follow from the Usage: whether the cost fits ([Spec.Fits]), how many events remain
// ([Spec.Remaining]) and how long to wait ([Spec.Wait]). If the check passes, [Spec.Store] writes the State with the cost
// charged. [Pasts.Settle] corrects a charge afterwards.
//
// Instants are microseconds since 1970, and waits are microseconds. Costs are events, between 0 and
// the capacity. All numbers stay below 2^53, where Lua's arithmetic is exact: the scripts of
// package script do the same up to the Usage, and the functions here are the reference for them.
//
// A Spec never changes, so any number of goroutines may use it at once. States and Pasts belong to
// one goroutine at a time.
//
// # The algorithms
//
// An algorithm is known in its file here, in its files of package script, and in the table in algorithm.go. No other code
// asks which algorithm a limit has: it asks the table for the algorithm's properties.
package exact
