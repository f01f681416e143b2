package faultproxy

import "time"

// Fault is a set of faults of a network. The zero Fault is a network in order. Faults add up.
type Fault struct {
	// When, unless it is empty, spares the replies to requests that do not contain it:
	// those of a handshake, say.
	When string
	// Refuse resets connections, both open and new ones.
	Refuse bool
	// Hold keeps all bytes back until the fault is over, as a partition does.
	Hold bool
	// LoseReplies lets requests through and swallows the server's replies. A
	// connection that has lost bytes stays silent for ever, as if its other end had
	// vanished.
	LoseReplies bool
	// CutRequests resets a connection as soon as a request comes, which the server
	// does not see.
	CutRequests bool
	// CutReplies resets a connection as soon as a reply comes: the server has run
	// the command.
	CutReplies bool
	// Truncate closes a connection after this many bytes of a reply. 0 is none.
	Truncate int
	// Replace stands in the place of each reply. Nil is the reply itself.
	Replace []byte
	// Latency holds each reply back for so long.
	Latency time.Duration
	// Bandwidth is how many bytes of replies pass in a second. 0 is no bound.
	Bandwidth int
	// CloseDelay is how long it takes until one side learns that the other has closed
	// a connection.
	CloseDelay time.Duration
}
