package demand

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// Sign is a set of signs that a key is no person, but for which it would count as normal.
type Sign uint8

// The signs.
const (
	// Crawling keys hardly ask for a path twice.
	Crawling Sign = 1 << iota
	// Guessing keys ask for one or two paths alone, with few user agents.
	Guessing
	// Steady keys have about as many requests each minute, for long, and few user agents.
	Steady
	// Dominant keys make a tenth of all requests or more, with few user agents.
	Dominant
)

// String names the signs.
func (s Sign) String() string {
	var all []string
	for i, text := range []string{
		"hardly asks for a path twice: a crawler", "asks for one or two paths alone: polling, or guessing",
		"has about as many requests each minute: a program", "makes a tenth of all requests or more",
	} {
		if s&(1<<i) != 0 {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

const (
	// manyRequests is how many requests a key must have for its marks to say anything.
	manyRequests = 200
	// manyAgents is how many user agents look like several people behind one address.
	manyAgents = 5
	// farAbove times the level that nine of ten keys stay within is out of line.
	farAbove = 10
	// usual is 1 divided by the share of keys with a mark from which on the mark says nothing: among programs, no program stands out.
	usual = 10
)

// marks tell programs from people.
type marks struct {
	paths   [64]uint8 // registers of HyperLogLog
	agents  [manyAgents - 1]uint32
	number  uint8     // of the agents, manyAgents at most
	minutes [2]uint32 // in how many minutes and hours there was a request
}

// add looks at a request.
func (m *marks) add(a *arrival.Arrival) {
	register := &m.paths[a.Path%uint64(len(m.paths))]
	*register = max(*register, uint8(bits.LeadingZeros64(a.Path|uint64(len(m.paths)-1)))+1)
	agent := uint32(a.AgentHash)
	if m.number == manyAgents || slices.Contains(m.agents[:m.number], agent) {
		return
	}
	if int(m.number) < len(m.agents) {
		m.agents[m.number] = agent
	}
	m.number++
}

// different returns about how many different paths there were: off by an eighth, and exact for few.
func (m *marks) different() float64 {
	n, sum, empty := float64(len(m.paths)), 0.0, 0
	for _, r := range m.paths {
		sum += 1 / float64(uint64(1)<<r)
		if r == 0 {
			empty++
		}
	}
	if empty > 0 {
		if few := n * math.Log(n/float64(empty)); few < 2.5*n {
			return few
		}
	}
	return 0.709 * n * n / sum
}

// signs returns the marks that a key has, by itself.
func (k *Key) signs() (s Sign) {
	if k.Requests < manyRequests {
		return 0
	}
	different := k.marks.different()
	if 2*different >= float64(k.Requests) {
		s |= Crawling
	}
	if k.marks.number >= manyAgents {
		return s
	}
	if different < 2.5 {
		s |= Guessing
	}
	minutes, hours := uint64(k.marks.minutes[0]), uint64(k.marks.minutes[1])
	if minutes >= 10 && minutes >= 20*hours && uint64(k.Peak[0])*minutes <= 2*k.Requests {
		s |= Steady
	}
	return s
}

// judge sets the signs of all keys. A mark is one if the key has far more requests in an hour or a day than nine of ten keys, and few keys
// have that mark.
func (d *Demand) judge() {
	const most = 0.9
	inHour, inDay := uint64(d.Peaks[1].Quantile(most)), uint64(d.Peaks[2].Quantile(most))
	var marked [3]int
	for _, k := range d.Keys {
		k.Signs = k.signs()
		for i := range marked {
			marked[i] += int(k.Signs >> i & 1)
		}
	}
	var rare Sign
	for i, n := range marked {
		if n*usual < d.Peaks[0].Keys() {
			rare |= 1 << i
		}
	}
	for _, k := range d.Keys {
		if k.Signs &= rare; uint64(k.Peak[1]) < farAbove*inHour && uint64(k.Peak[2]) < farAbove*inDay {
			k.Signs = 0
			continue
		}
		if k.marks.number < manyAgents && k.Requests >= manyRequests && k.Requests*10 >= d.Requests {
			k.Signs |= Dominant
		}
	}
}
