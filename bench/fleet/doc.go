// Package fleet simulates twenty servers that share a limit of a million requests a second, and makes the plots and the table of
// docs/leases-at-scale.md:
//
//	go test -run Page -write ./fleet
//
// The servers, their leases and the store are the real ones, on a clock that only moves when all of them wait. Each
// server asks at instants that a seeded generator draws. So the result is the same each time, except for the order of events at one
// instant.
package fleet
