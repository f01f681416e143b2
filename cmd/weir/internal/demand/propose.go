package demand

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Cell is a limit: a rate, as its number in Rates, and a burst.
type Cell struct {
	Rate, Burst int
}

// Limit returns the limit.
func (c Cell) Limit() core.Limit { return core.Leaky(c.Burst, Rates[c.Rate]) }

// Recovers returns the time in which a bucket that is full runs empty.
func (c Cell) Recovers() time.Duration { return time.Duration(c.Burst) * Interval(c.Rate) }

// Allowance returns how many requests of one key the limit admits at most in a time.
func (c Cell) Allowance(in time.Duration) float64 { return float64(c.Burst) + Within(c.Rate, in) }

// Proposal is a limit that is proposed.
type Proposal struct {
	Name string
	Cell Cell
	// Tolerated is how many keys that do not look like abuse it may deny, and Normal and Keys are how many of these, and of all, it would
	// have denied at least once.
	Tolerated, Normal, Keys int
}

// grades are the proposals, from the tightest to the loosest, and how many keys in a thousand they may deny.
var grades = []struct {
	name        string
	perThousand int
}{{"tight", 10}, {"guard", 1}, {"invisible", 0}}

// Propose returns three limits. Each is the one that admits the least in the given time, of all that deny at most a share of the keys
// that do not look like abuse: none, 0.1 % and 1 %. None has a higher rate or a larger burst than the one before. It returns nothing if
// there are no such keys, or no burst is large enough.
//
// span is how much time the log tells of. A proposal recovers within it, if any limit does, since the log does not tell how much keys need of a
// slower one: over a log of a minute, 3 a day would seem enough for everybody.
//
// wait is how long a client that has used its burst up waits for the next request at most: slower rates are not proposed.
func (d *Demand) Propose(horizon, span, wait time.Duration) []Proposal {
	normal := d.Normal[0].Keys()
	if normal == 0 {
		return nil
	}
	slowest, least := RateCount-1, 1 // the burst of the tighter proposal
	var proposals []Proposal
	for _, g := range grades {
		tolerated := normal * g.perThousand / 1000
		best, found := Cell{}, false
		for rate := range slowest + 1 {
			if rate > 0 && Interval(rate) > wait {
				break
			}
			burst := RoundUp(max(d.Normal[rate].Least(tolerated), least))
			if burst == 0 {
				continue
			}
			c := Cell{rate, burst}
			if !found || c.Recovers() <= span && c.Allowance(horizon) < best.Allowance(horizon) {
				best, found = c, true
			}
		}
		if !found {
			return nil
		}
		slowest, least = best.Rate, best.Burst
		proposals = append(proposals, Proposal{
			Name: g.name, Cell: best, Tolerated: tolerated,
			Normal: d.Normal[best.Rate].Above(best.Burst), Keys: d.All[best.Rate].Above(best.Burst),
		})
	}
	slices.Reverse(proposals)
	return proposals
}

// RoundUp returns the least of Bursts that is enough, or 0 if none is.
func RoundUp(need int) int {
	for _, b := range Bursts {
		if b >= need {
			return b
		}
	}
	return 0
}
