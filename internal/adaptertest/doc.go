// Package adaptertest holds the one suite that the adapters for net/http, gin and
// both versions of echo have to pass. Each case drives an adapter through its framework and
// compares everything that a client sees, byte for byte, with one text, so that
// the adapters cannot differ:
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Adapter[ratelimit.Middleware]{New: ratelimit.New, …})
//	}
package adaptertest
