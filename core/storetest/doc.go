// Package storetest is the conformance suite of [core.Store]. Whoever writes a
// store of their own runs it in a few lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, now func() time.Time) core.Store {
//			return mystore.New(mystore.WithClock(now))
//		})
//	}
//
// Each law that every algorithm keeps on every store is a subtest, and its name
// says what it is. The laws are stated as properties of random requests, and a
// failure is shrunk to a small one. Last, whole random histories are compared with
// a model in exact rational numbers, decision for decision. How many random
// examples are tried is up to the flag -rapid.checks.
package storetest
