// Package conformance has the tests of package connect, in the module of that name, that need more than connect-go: its conformance suite, and the client of
// grpc-go.
package conformance
