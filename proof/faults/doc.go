// Package faults holds the tests that prove what docs/reliability.md says: what
// becomes of calls, and of the counts, when Redis and the way to it fail. Real
// servers are killed, frozen, cut off, flushed, filled up, failed over and resharded
// under a steady load, whose account is then compared with what Redis has.
//
// There are three kinds. The fault suite goes through the faults one by one. The
// histories of several processes are checked for linearizability. And the soak, for
// a few seconds in the suite or as long as make soak says, mixes everything, and
// compares what was admitted with the exact model.
package faults
