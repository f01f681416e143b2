package core

import (
	"fmt"
	"sync/atomic"
)

// Comparison counts how the verdicts of two limits about the same requests compare: of
// one that is enforced, and of a candidate that runs beside it as a shadow
// ([Check.Shadow]). The zero value is ready to use, by many goroutines at once. It must
// not be copied.
type Comparison struct {
	bothAllow, onlyEnforcedRefuses, onlyCandidateRefuses, bothRefuse atomic.Uint64
}

// Count counts the verdicts about one request: whether each limit has let it pass.
func (c *Comparison) Count(enforced, candidate bool) {
	switch {
	case enforced && candidate:
		c.bothAllow.Add(1)
	case candidate:
		c.onlyEnforcedRefuses.Add(1)
	case enforced:
		c.onlyCandidateRefuses.Add(1)
	default:
		c.bothRefuse.Add(1)
	}
}

// Counts returns how often each combination has occurred. While others count, the four
// numbers are of about the same moment.
func (c *Comparison) Counts() Counts {
	return Counts{
		BothAllow:            c.bothAllow.Load(),
		OnlyEnforcedRefuses:  c.onlyEnforcedRefuses.Load(),
		OnlyCandidateRefuses: c.onlyCandidateRefuses.Load(),
		BothRefuse:           c.bothRefuse.Load(),
	}
}

// Counts are those of a [Comparison].
type Counts struct {
	BothAllow            uint64 `json:"both-allow"`
	OnlyEnforcedRefuses  uint64 `json:"only-enforced-refuses"`  // whom the candidate would let pass
	OnlyCandidateRefuses uint64 `json:"only-candidate-refuses"` // whom the candidate would hurt
	BothRefuse           uint64 `json:"both-refuse"`
}

func (c Counts) String() string {
	return fmt.Sprintf("both allow %d, only the enforced refuses %d, only the candidate refuses %d, both refuse %d",
		c.BothAllow, c.OnlyEnforcedRefuses, c.OnlyCandidateRefuses, c.BothRefuse)
}
