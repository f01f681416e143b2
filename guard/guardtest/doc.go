// Package guardtest is the conformance suite of adapters of package guard, which put its limits in front of the handlers of a framework. The
// adapters of this module, nethttp, gin, echo and echo/v5, pass it; examples/fiber in the repository runs it on one outside of the module. A
// few lines run it on an adapter of your own:
//
//	func TestAdapter(t *testing.T) {
//		guardtest.Run(t, guardtest.Adapter[myframework.Middleware]{
//			FromGuard:   limit,     // func(*guard.Guard) myframework.Middleware
//			Serve: buildSite, // with the framework's router
//		})
//	}
//
// Each case is a subtest, named after its claim. It sends requests through the framework, and compares all that a client sees, byte
// for byte, the events of an observer, and the calls to a store. Some cases count time, or set the environment: the suite runs in sequence, and
// takes some seconds.
//
// [Adapter].Without names the features that the framework lacks, and the other fields of [Adapter] are the optional parts of the package.
// Cases about missing parts are skipped, with the reason: look at them by go test -v. Leave out as little as possible: a case that is
// skipped proves nothing.
//
// The package imports testing and others that belong in no program: import it in tests.
package guardtest
