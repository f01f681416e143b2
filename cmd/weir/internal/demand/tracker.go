package demand

import (
	"slices"

	"github.com/axiomhq/hyperloglog"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// DefaultKeys is how many keys a Tracker follows at a time by default. Each takes about 0.8 KB.
const DefaultKeys = 100_000

// Key is a key, and its traffic.
type Key struct {
	Text     string
	Hash     uint64
	Requests uint64
	Missed   uint64    // the most requests of the key that may have come before it was followed
	Refused  uint64    // requests that were answered 4xx, except 429
	Limited  uint64    // requests that were answered 429
	Peak     [3]uint32 // most requests in a minute, an hour and a day of UTC
	Signs    Sign      // set by Tracker.Demand

	marks   marks
	current [3]window
	bucket  bucket
}

// window is a minute, an hour or a day, and the requests in it.
type window struct {
	number int32
	count  uint32
}

// Need returns the burst that the key needs at a rate, at most Most.
func (k *Key) Need(rate int) int { return int(k.bucket.need[rate]) }

// windows are the seconds of a minute, an hour and a day.
var windows = [3]int64{60, 3600, 86400}

// Suspect reports whether the key has signs of abuse, so that it does not count as normal.
func (k *Key) Suspect() bool { return k.Failing() || k.Signs != 0 }

// Failing reports whether half of the key's requests, of 20 or more, were answered with an error of the client's. Requests that a limit
// denied (429) do not count as errors: a busy customer gets them, too.
func (k *Key) Failing() bool {
	const enough = 20
	return k.Requests >= enough && 2*k.Refused >= k.Requests
}

// Tracker follows keys. It is an [arrival.Sink], and must not be used concurrently.
//
// It follows a bounded number of them. When that is reached, those with the fewest requests are given up (the algorithm of Misra and Gries, as
// a batch: the same bound as that of Space-Saving); their need is added to the totals. A key that is given up and comes back is
// counted twice, and its needed burst may be too low by at most Missed, which is never more than two requests in Keys.
type Tracker struct {
	most     int
	index    map[uint64]uint32
	keys     table // the keys that are followed
	missed   uint64
	distinct *hyperloglog.Sketch
	past     [2]past // of normal and of suspect keys
	requests uint64
}

// Keep says how much of each request a Tracker needs, as arrival.Options.Keep.
func Keep(uint64) arrival.Part { return arrival.All }

// NewTracker returns a Tracker that follows at most the given number of keys at a time: DefaultKeys if it is 0.
func NewTracker(keys int) *Tracker {
	if keys <= 0 {
		keys = DefaultKeys
	}
	return &Tracker{most: keys, index: make(map[uint64]uint32), distinct: hyperloglog.New14()}
}

// Second implements arrival.Sink.
func (t *Tracker) Second(arrivals []arrival.Arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		at, ok := t.index[a.Hash]
		if !ok {
			at = t.follow(a)
		}
		t.keys.at(int(at)).add(a)
	}
	t.requests += uint64(len(arrivals))
}

// follow begins to follow a key.
func (t *Tracker) follow(a *arrival.Arrival) uint32 {
	t.distinct.InsertHash(a.Hash)
	if t.keys.n == t.most {
		t.giveUp()
	}
	at := uint32(t.keys.n)
	*t.keys.more() = Key{Text: string(a.Key), Hash: a.Hash, Missed: t.missed}
	t.index[a.Hash] = at
	return at
}

// giveUp gives up at least half of the keys: those with the fewest requests.
func (t *Tracker) giveUp() {
	counts := make([]uint64, 0, t.keys.n)
	for k := range t.keys.all() {
		counts = append(counts, k.Requests+k.Missed)
	}
	slices.Sort(counts)
	t.missed = counts[len(counts)/2]
	kept := 0
	clear(t.index)
	for k := range t.keys.all() {
		if k.Requests+k.Missed <= t.missed {
			t.past[kind(k)].add(k)
			continue
		}
		*t.keys.at(kept) = *k
		t.index[k.Hash] = uint32(kept)
		kept++
	}
	t.keys.n = kept
}

// kind is 1 for a suspect key, and else 0.
func kind(k *Key) int {
	if k.Suspect() {
		return 1
	}
	return 0
}

// add counts a request.
func (k *Key) add(a *arrival.Arrival) {
	k.Requests++
	if a.Status >= 400 && a.Status < 500 {
		if a.Status == 429 {
			k.Limited++
		} else {
			k.Refused++
		}
	}
	second := a.Instant / arrival.Second
	for i, length := range windows {
		w := &k.current[i]
		number := int32(second / length)
		if w.number != number {
			*w = window{number: number}
			if i < len(k.marks.minutes) {
				k.marks.minutes[i]++
			}
		}
		w.count++
		k.Peak[i] = max(k.Peak[i], w.count)
	}
	k.marks.add(a)
	k.bucket.fill(a.Instant)
}

// past is the need of keys that are not followed any more.
type past struct {
	keys  int
	need  [RateCount]counts
	peaks [3]counts
}

// counts says how often each number was seen.
type counts struct {
	small [64]uint32
	large map[uint32]uint32
}

func (c *counts) add(n uint32) {
	if int(n) < len(c.small) {
		c.small[n]++
		return
	}
	if c.large == nil {
		c.large = make(map[uint32]uint32)
	}
	c.large[n]++
}

func (p *past) add(k *Key) {
	p.keys++
	for r := range RateCount {
		p.need[r].add(k.bucket.need[r])
	}
	for i := range windows {
		p.peaks[i].add(k.Peak[i])
	}
}
