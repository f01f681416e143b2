// Package simulation holds a deterministic simulation of places: several processes share the places of
// concurrent limits in one store, over links that delay, lose and repeat what they carry, while processes
// pause, die and go on. The clock is that of a testing/synctest bubble, so that hours take milliseconds, and
// rapid draws and shrinks the histories.
//
// ledger_test.go is the model: it sees all that reaches the store. link_test.go is the way there,
// process_test.go a process with its work, and world_test.go the laws of places_test.go, which are looked at after every step.
package simulation
