// Package arrival turns logs into one sequence of requests in the order of time: it parses blocks of lines on all processors, merges
// the logs of several servers, puts lines right that stand a little out of order, and spreads the requests of a second if a log tells
// whole seconds only.
package arrival

import (
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
)

// Second is a second in microseconds, the unit of instants.
const Second = 1_000_000

// Arrival is a request. Its Key is valid until the call that it is given to returns.
type Arrival struct {
	Instant int64 // microseconds since 1970
	Hash    uint64
	Key     []byte // nil with Options.Requests
	// Path and AgentHash are hashes of the path and of Agent, if All was asked for.
	Path, AgentHash uint64
	// Agent is the User-Agent, if All was asked for. It stays valid.
	Agent  string
	Status uint16
	// Request is the whole request, with Options.Requests. It stays valid.
	Request *accesslog.Request
	Whole   bool // the log told the second alone, and the rest is a guess

	passing bool // nobody needs it, and it only tells how far the log is
}

// A Sink is given the arrivals, some at a time, and those of a key in the order of their instants. [Read] gives it those of a second at a time.
type Sink interface {
	Second(arrivals []Arrival)
}

// Part is how much of a request is needed.
type Part uint8

// The parts: None leaves the request out, When is all but Path, Agent and AgentHash, and All is everything.
const (
	None Part = iota
	When
	All
)

// Options say which parts of the logs are read.
type Options struct {
	// Format is that of all files. By default each is looked at.
	Format accesslog.Format
	// Log says which parts of a line are read.
	Log accesslog.Options
	// Route, if it is given, says which requests count.
	Route *Route
	// Keep, if it is given, says how much of a key's requests is needed. By default it is When. It is called concurrently. The Summary counts the
	// requests that are not needed, too.
	Keep func(hash uint64) Part
	// Requests has each Arrival bear its whole request.
	Requests bool
	// Late is for how long a line is waited for that stands behind a younger one. 0 means ten seconds.
	Late time.Duration
	// Workers is how many goroutines parse. 0 means one for each processor.
	Workers int
}

// Summary counts the lines that were read.
type Summary struct {
	Lines      int64 // all
	Arrivals   int64 // those that count
	OtherRoute int64 // those of a route that was not asked for
	Keyless    int64 // those without a key
	Skipped    int64 // those that could not be read
	Late       int64 // lines that were counted at a later instant than they name, since they stood too far behind
	// Behind is how far behind a younger line the furthest of them stood, in whole seconds. As Options.Late it would have been enough.
	Behind time.Duration
	// Crowded is set where the requests within Options.Late took more than MostWaiting, so that some were not waited for as long.
	Crowded bool
	// Aside is how many lines count nowhere, since their time is far outside of those around them, and FirstAside is the instant of the first one.
	Aside, FirstAside int64

	Whole    int64 // those with a whole second as their timestamp
	FirstBad *BadLine
	unread   unread            // lines that could not be read, by client
	Formats  map[string]string // of each file
	First    int64             // the least instant, and the greatest
	Last     int64
}

// Span returns how much time there is between the first request and the last. Whole seconds count to their end, since requests are spread over
// them.
func (s *Summary) Span() time.Duration {
	if s.Arrivals == 0 {
		return 0
	}
	span := time.Duration(s.Last-s.First) * time.Microsecond
	if s.Whole > 0 {
		span += time.Second
	}
	return span
}

// MostLate is the most that Options.Late can be: the requests of so much time are kept in memory.
const MostLate = time.Hour

// Disorder says how many lines stood too far behind younger ones, and names the remedy. It is empty if none did.
func (s *Summary) Disorder() string {
	if s.Late == 0 {
		return ""
	}
	advice := fmt.Sprintf("-late %v reads them at their instant.", s.Behind)
	switch {
	case s.Crowded:
		advice = "The requests within -late take more than 1 GiB of memory, so not all were waited for. Sort the log by time."
	case s.Behind > MostLate:
		advice = "Sort the log by time."
	}
	return fmt.Sprintf("%d of %d lines stood behind younger ones by up to %v, and count at a later instant than they name. %s",
		s.Late, s.Lines, s.Behind, advice)
}

// BadLine is a line that could not be read, and why.
type BadLine struct {
	File string
	Line int64
	Text string
	Why  string
}
