package simulate

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// Result counts the requests that the policies would have denied.
type Result struct {
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	// Unlimited is how many requests met no limit.
	Unlimited uint64 `json:"unlimited"`
	// Listed is how many requests a list has let pass or denied.
	Listed uint64 `json:"listed"`
	// Limited is how many requests the log says were answered with 429.
	Limited uint64 `json:"answered_429"`
	// Undecided is how many requests there was no room for in the store, and Unread how many are no requests of HTTP.
	Undecided uint64  `json:"undecided"`
	Unread    uint64  `json:"unread"`
	Limits    []Limit `json:"limits"`
	Series    Series  `json:"series"`
	// Notes name all that the log could not tell.
	Notes []string `json:"notes"`
}

// Limit counts the requests that one limit would have denied.
type Limit struct {
	Name string `json:"name"`
	// Shadow says that it denied no request: Denied counts the ones that it would have.
	Shadow   bool   `json:"shadow,omitempty"`
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	Keys     int    `json:"keys"`
	// Missed is how many requests are of keys that were too many to be counted in Keys.
	Missed     uint64 `json:"missed,omitempty"`
	DeniedKeys int    `json:"denied_keys"`
	// Anonymous is how many requests did not have the key that the policy counts by, and were counted by address.
	Anonymous uint64 `json:"without_key,omitempty"`
	// Busiest are the keys that were denied, of which those with the most denials come first.
	Busiest []Key  `json:"busiest,omitempty"`
	Series  Series `json:"series"`
}

// Key counts a key's requests.
type Key struct {
	Key      string    `json:"key"`
	Requests uint64    `json:"requests"`
	Denied   uint64    `json:"denied"`
	First    time.Time `json:"first_denial"`
}

// MostListed is how many keys of a limit a result lists.
const MostListed = 20

// Result returns the counts of all requests. name returns the name of a key, and times are those of a zone.
func (s *Simulation) Result(name func(string) string, zone *time.Location) *Result {
	s.decide()
	<-s.counted
	t := &s.tally
	r := t.result
	r.Unread, r.Notes = t.unread, append([]string{}, t.notes...)
	r.Series.in(zone)
	r.Limits = make([]Limit, 0, len(t.limits))
	for id, l := range t.limits {
		out := l.Limit
		out.Name, out.Shadow, out.Keys = id.name, id.shadow, l.keys.n
		out.Series.in(zone)
		denied := make([]Key, 0, len(l.denied))
		for hash, k := range l.denied {
			denied = append(denied, Key{k.text, l.keys.at(hash).requests, k.denials, time.UnixMicro(k.first).In(zone)})
		}
		slices.SortFunc(denied, func(a, b Key) int { return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key)) })
		out.DeniedKeys = len(denied)
		out.Busiest = denied[:min(len(denied), MostListed)]
		for i := range out.Busiest {
			out.Busiest[i].Key = name(out.Busiest[i].Key)
		}
		r.Limits = append(r.Limits, out)
	}
	slices.SortFunc(r.Limits, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name), flagged(a.Shadow)-flagged(b.Shadow))
	})
	return &r
}

// AllNotes returns the notes, and further ones that follow from the numbers.
func (r *Result) AllNotes() []string {
	notes := slices.Clone(r.Notes)
	add := func(n uint64, one, several string) {
		switch n {
		case 0:
		case 1:
			notes = append(notes, "One "+one)
		default:
			notes = append(notes, fmt.Sprintf("%d %s", n, several))
		}
	}
	for _, l := range r.Limits {
		add(l.Anonymous, "request does not have the key of "+l.Name+" in the log. It was counted by its address, as the guard does.",
			"requests do not have the key of "+l.Name+" in the log. They were counted by their address, as the guard does.")
		add(l.Missed, "request under "+l.Name+" is of a key beyond those that are followed: see -keys.",
			"requests under "+l.Name+" are of keys that were too many to be followed: see -keys.")
	}
	add(r.Listed, "request was decided by a list.", "requests were decided by a list.")
	add(r.Limited, "request was answered with 429 already. It was replayed like all others.",
		"requests were answered with 429 already. They were replayed like all others.")
	add(r.Undecided, "request could not be decided: the store was full, or its key could not be read.",
		"requests could not be decided: the store was full, or a key could not be read.")
	add(r.Unread, "line is no request of HTTP, and was left out.", "lines are no requests of HTTP, and were left out.")
	return notes
}

func flagged(is bool) int {
	if is {
		return 1
	}
	return 0
}

// tally counts.
type tally struct {
	result Result
	limits map[identity]*counted
	last   []*counted // of the outcomes of the last request
	notes  []string
	unread uint64

	mostKeys int
	looked   uint64 // see keyTable.look
}

// identity tells limits apart.
type identity struct {
	name   string
	shadow bool
}

// counted is a limit, and its keys.
type counted struct {
	Limit

	id     identity
	keys   keyTable
	denied map[uint64]*deniedKey // by their hashes
}

// deniedKey is a key that was denied.
type deniedKey struct {
	text    string
	denials uint64
	first   int64 // in microseconds since 1970
}

// count counts the decisions about the requests of a round, in their order.
func (t *tally) count(of *round) {
	for i := range of.parts {
		t.look(&of.parts[i])
	}
	rest := slices.Clone(of.parts)
	for _, number := range of.order {
		s := &rest[number]
		a := &s.arrived[0]
		t.one(a, s.outcomes[:a.outcomes])
		s.arrived, s.outcomes = s.arrived[1:], s.outcomes[a.outcomes:]
	}
}

// look looks at the keys of a share.
func (t *tally) look(s *share) {
	outcomes := s.outcomes
	for i := range s.arrived {
		n := s.arrived[i].outcomes
		for place := range n {
			o := &outcomes[place]
			t.looked += t.limit(place, o.limit).keys.look(o.hash)
		}
		outcomes = outcomes[n:]
	}
}

// one counts the decision about a request.
func (t *tally) one(a *arrived, outcomes []outcome) {
	r := &t.result
	add(&r.Limited, a.logged.Status == http.StatusTooManyRequests)
	if !a.read {
		t.unread++
		return
	}
	r.Requests++
	add(&r.Denied, a.denied)
	add(&r.Listed, a.listed)
	add(&r.Undecided, a.unasked)
	add(&r.Unlimited, len(outcomes) == 0 && !a.listed && !a.unasked)
	r.Series.add(a.instant, a.denied)
	for i := range outcomes {
		t.limit(i, outcomes[i].limit).add(a.instant, &outcomes[i], t.mostKeys)
	}
}

// add counts if a condition holds.
func add(counter *uint64, is bool) {
	if is {
		*counter++
	}
}

// limit returns the limit of an outcome. Most requests meet the same limits as the one before.
func (t *tally) limit(place int, id identity) *counted {
	if place < len(t.last) && t.last[place].id == id {
		return t.last[place]
	}
	l := t.limits[id]
	if l == nil {
		if t.limits == nil {
			t.limits = make(map[identity]*counted)
		}
		l = &counted{id: id, denied: make(map[uint64]*deniedKey)}
		t.limits[id] = l
	}
	t.last = append(t.last[:place], l)
	return l
}

// add counts an outcome.
func (l *counted) add(instant int64, o *outcome, most int) {
	l.Requests++
	l.Series.add(instant, o.denied)
	add(&l.Anonymous, o.anonymous)
	add(&l.Denied, o.denied)
	k := l.keys.find(o.hash, most)
	if k == nil {
		l.Missed++
		return
	}
	k.requests++
	if !o.denied {
		return
	}
	d := l.denied[o.hash]
	if d == nil {
		d = &deniedKey{text: o.key, first: instant}
		l.denied[o.hash] = d
	}
	d.denials++
}

// mostPoints is how many points a series has at most.
const mostPoints = 240

// Series are requests over time.
type Series struct {
	From time.Time `json:"from"`
	// Width is the time of a point, in nanoseconds.
	Width  time.Duration `json:"width_ns"`
	Points []Point       `json:"points"`

	from int64 // From, in microseconds since 1970
}

// Point are the requests of some time.
type Point struct {
	Admitted uint64 `json:"admitted"`
	Denied   uint64 `json:"denied"`
}

// widths are the possible widths of a point. Each is a multiple of the one before.
var widths = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// widen makes fewer points.
func (s *Series) widen() {
	width := 2 * s.Width
	if i := slices.Index(widths[:], s.Width) + 1; i > 0 && i < len(widths) {
		width = widths[i]
	}
	several := int(width / s.Width)
	wide := make([]Point, 0, mostPoints)
	for part := range slices.Chunk(s.Points, several) {
		var sum Point
		for _, p := range part {
			sum.Admitted += p.Admitted
			sum.Denied += p.Denied
		}
		wide = append(wide, sum)
	}
	s.Points, s.Width = wide, width
}

// add counts a request at an instant in microseconds since 1970.
func (s *Series) add(instant int64, denied bool) {
	if s.Width == 0 {
		s.From, s.Width = time.UnixMicro(instant).Truncate(time.Minute), widths[0]
		s.from = s.From.UnixMicro()
	}
	at := s.at(instant)
	for at >= mostPoints {
		s.widen()
		at = s.at(instant)
	}
	for len(s.Points) <= at {
		s.Points = append(s.Points, Point{})
	}
	if denied {
		s.Points[at].Denied++
	} else {
		s.Points[at].Admitted++
	}
}

// at returns the number of the point of an instant.
func (s *Series) at(instant int64) int {
	const most = int64(math.MaxInt64 / time.Microsecond) // what a time.Duration can tell
	return int(max(0, min(instant-s.from, most)/s.Width.Microseconds()))
}

func (s *Series) in(zone *time.Location) { s.From = s.From.In(zone) }
