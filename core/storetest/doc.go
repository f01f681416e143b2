// Package storetest is the conformance suite of [core.Store]. A few lines run it on a
// store of your own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, now func() time.Time) core.Store {
//			return mystore.New(mystore.WithClock(now))
//		})
//	}
//
// Each law that every algorithm keeps on every store is a subtest named after the
// law. The laws are properties of random requests, and a failure is shrunk to a
// small one. Last, whole random histories are compared with a model in exact
// rational numbers, decision for decision. The flag -rapid.checks sets how many
// random examples are tried.
package storetest
