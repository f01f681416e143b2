package offenders

import (
	"container/heap"
	"math"
	"time"
)

// sketch counts the most frequent keys of late, in bounded memory: Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005), of counts that decay forward (G.
// Cormode, V. Shkapenyuk, D. Srivastava, B. Xu, "Forward Decay: A Practical Time Decay Model for Streaming Systems", ICDE
// 2009).
//
// A count halves in each half-life. Forward decay does that without touching it: an event t after a landmark adds
// 2^(t/half-life), and a reader divides all counts by that of the current moment. Space-Saving keeps a fixed number of
// counters. A key that has none takes over the least one, with its count. That count may be too high by as much: it is
// the key's error.
//
// The counters always add up to the total. So with m counters and a total of n, the least is at most n/m; no count is too
// low, and none is too high by more than its error, which is at most n/m. Each key that has occurred more often than n/m
// is counted.
type sketch struct {
	halfLife time.Duration
	landmark time.Time
	most     int
	total    float64 // as of the landmark, like the weights of the counters
	byKey    map[string]*counter
	least    leastFirst
}

// counter counts one key.
type counter struct {
	key           string
	weight, error float64
	policy        string // the last one
	last          time.Time
	banned        time.Time // until when, if the last denial was by a ban
	place         int       // in the heap
}

// rescaleAfter is how many half-lives a landmark lasts: the numbers must not overflow.
const rescaleAfter = 256

// growth returns the weight of an event at a moment.
func (s *sketch) growth(now time.Time) float64 {
	age := float64(now.Sub(s.landmark)) / float64(s.halfLife)
	if age > rescaleAfter {
		s.rescale(math.Exp2(-age))
		s.landmark, age = now, 0
	}
	return math.Exp2(age)
}

// rescale multiplies all weights. Counters that reach 0 leave.
func (s *sketch) rescale(by float64) {
	s.total *= by
	kept := s.least[:0]
	for _, c := range s.least {
		c.weight, c.error = c.weight*by, c.error*by
		if c.weight < 1e-9 {
			s.total -= c.weight
			delete(s.byKey, c.key)
			continue
		}
		kept = append(kept, c)
	}
	clear(s.least[len(kept):])
	s.least = kept
	for i, c := range s.least {
		c.place = i
	}
	heap.Init(&s.least)
	s.total = max(0, s.total)
}

// count counts an occurrence of a key. own returns the key to keep, if it is to be kept.
func (s *sketch) count(key string, now time.Time, own func(string) string) *counter {
	weight := s.growth(now)
	s.total += weight
	c := s.byKey[key]
	switch {
	case c != nil:
		c.weight += weight
		heap.Fix(&s.least, c.place)
	case len(s.least) < s.most:
		c = &counter{key: own(key), weight: weight}
		heap.Push(&s.least, c)
		s.byKey[c.key] = c
	default:
		c = s.least[0]
		delete(s.byKey, c.key)
		c.key, c.error, c.weight = own(key), c.weight, c.weight+weight
		s.byKey[c.key] = c
		heap.Fix(&s.least, 0)
	}
	return c
}

// leastFirst is a heap of counters.
type leastFirst []*counter

func (h leastFirst) Len() int           { return len(h) }
func (h leastFirst) Less(i, j int) bool { return h[i].weight < h[j].weight }

func (h leastFirst) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *leastFirst) Push(c any) {
	added := c.(*counter) //nolint:forcetypeassert // the heap holds nothing else
	added.place = len(*h)
	*h = append(*h, added)
}

func (h *leastFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
