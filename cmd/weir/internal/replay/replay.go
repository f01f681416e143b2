// Package replay says what limits would have done: it goes through the requests of the keys that need more than a limit gives,
// and decides each of them as the limit would.
package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/axiomhq/hyperloglog"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// The bounds of what a replay keeps: buckets of single keys under single limits, and keys whose requests are looked at in detail.
const (
	MostBuckets = 500_000
	MostKeys    = 2_000
)

// Replay decides the requests of keys. It is an [arrival.Sink], and must not be used concurrently.
type Replay struct {
	zone      *time.Location
	calendar  *arrival.Calendar
	proposals []demand.Proposal
	intervals []int64 // of the proposals
	keys      map[uint64]*Subject
	cells     map[demand.Cell]*Cell
	counted   []counted
	days      map[int64]*Day // by their begin, in seconds since 1970
}

// Cell is what a limit of the frontier would have done.
type Cell struct {
	demand.Cell

	Keys, Normal int    // that it denies at least once: all, and those that do not look like abuse
	Counted      bool   // whether Denied was counted
	Denied       uint64 // requests
}

// Day is what the proposals would have done on a day.
type Day struct {
	Begin  time.Time
	Denied []uint64 // requests, by proposal
	Keys   []int    // keys that were denied, by proposal
	Normal []int    // those of them that do not look like abuse
}

// Subject is a key that is denied by a limit.
type Subject struct {
	Key      *demand.Key
	Verdicts []Verdict // by proposal
	Evidence *Evidence // nil of a key that no proposal denies

	buckets []bucket
}

// bucket is that of a key under a limit of the frontier.
type bucket struct {
	empty int64 // when it will be empty
	cell  int   // the number of the limit
}

// counted is a limit of the frontier whose denials are counted. Times are in microseconds.
type counted struct {
	*Cell

	interval, brim int64
}

// Verdict is what a proposal would have done to a key.
type Verdict struct {
	Denied uint64
	First  time.Time // the first denial
	// Longest is the longest time from one denied request to another between which the bucket never ran empty, and From is when it began.
	Longest time.Duration
	From    time.Time

	empty, first int64
	denying      bool
	lastDay      *Day
}

// Evidence tells abuse from use.
type Evidence struct {
	Hours    [24]uint64 // requests in each hour of the day
	Statuses [6]uint64  // responses by the first digit of their status; those without one at 0
	Agents   []Agent    // the first few, by their requests
	Others   bool       // whether there are more agents than those

	paths *hyperloglog.Sketch
}

// Agent is a User-Agent, and how many requests bore it.
type Agent struct {
	Name     string
	Requests uint64
}

// Paths returns about how many different paths were asked for.
func (e *Evidence) Paths() uint64 { return e.paths.Estimate() }

// New returns a replay of the proposals, and of those limits of the frontier that deny the fewest keys, as far as there is room. Days and hours are
// those of zone.
func New(d *demand.Demand, proposals []demand.Proposal, zone *time.Location) *Replay {
	r := &Replay{
		zone: zone, calendar: arrival.NewCalendar(zone), proposals: proposals,
		keys: make(map[uint64]*Subject), cells: make(map[demand.Cell]*Cell), days: make(map[int64]*Day),
	}
	r.watchProposals(d)
	r.watchFrontier(d)
	return r
}

// watchProposals takes the keys that a proposal denies, those with the most requests first.
func (r *Replay) watchProposals(d *demand.Demand) {
	var denied []*demand.Key
	for _, k := range d.Keys {
		for _, p := range r.proposals {
			if k.Need(p.Cell.Rate) > p.Cell.Burst {
				denied = append(denied, k)
				break
			}
		}
	}
	slices.SortFunc(denied, func(a, b *demand.Key) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Text, b.Text))
	})
	for i, k := range denied {
		s := r.subject(k)
		s.Verdicts = make([]Verdict, len(r.proposals))
		if i < MostKeys {
			paths, err := hyperloglog.NewSketch(10, true) // off by 3 %, in 1 KB
			if err != nil {
				panic(err) // 10 is a good number
			}
			s.Evidence = &Evidence{paths: paths}
		}
	}
	for _, p := range r.proposals {
		r.intervals = append(r.intervals, demand.Interval(p.Cell.Rate).Microseconds())
	}
}

// watchFrontier takes the limits that deny keys, as many as there is room for.
func (r *Replay) watchFrontier(d *demand.Demand) {
	cells := make([]*Cell, 0, demand.RateCount*len(demand.Bursts))
	for rate := range demand.RateCount {
		for _, burst := range demand.Bursts {
			c := &Cell{Cell: demand.Cell{Rate: rate, Burst: burst}}
			c.Keys, c.Normal = d.All[rate].Above(burst), d.Normal[rate].Above(burst)
			r.cells[c.Cell] = c
			cells = append(cells, c)
		}
	}
	slices.SortStableFunc(cells, func(a, b *Cell) int { return cmp.Compare(a.Keys, b.Keys) })
	room := MostBuckets
	number := make(map[demand.Cell]int)
	for _, c := range cells {
		if room -= c.Keys; room < 0 {
			break
		}
		c.Counted = true
		interval := demand.Interval(c.Rate).Microseconds()
		number[c.Cell] = len(r.counted)
		r.counted = append(r.counted, counted{c, interval, int64(c.Burst) * interval})
	}
	var buckets []bucket
	for _, k := range d.Keys {
		buckets = buckets[:0]
		for rate := range demand.RateCount {
			for _, burst := range demand.Bursts {
				if burst >= k.Need(rate) {
					break
				}
				if n, ok := number[demand.Cell{Rate: rate, Burst: burst}]; ok {
					buckets = append(buckets, bucket{cell: n})
				}
			}
		}
		if len(buckets) > 0 {
			r.subject(k).buckets = slices.Clone(buckets)
		}
	}
}

func (r *Replay) subject(k *demand.Key) *Subject {
	s := r.keys[k.Hash]
	if s == nil {
		s = &Subject{Key: k}
		r.keys[k.Hash] = s
	}
	return s
}

// Keep reports whether a key's requests are needed. It may be called concurrently, until the first call of Second.
func (r *Replay) Keep(hash uint64) bool {
	_, ok := r.keys[hash]
	return ok
}

// Second implements arrival.Sink.
func (r *Replay) Second(arrivals []arrival.Arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		s := r.keys[a.Hash]
		for i := range s.buckets {
			b := &s.buckets[i]
			c := &r.counted[b.cell]
			if empty := max(b.empty, a.Instant) + c.interval; empty-a.Instant <= c.brim {
				b.empty = empty
			} else {
				c.Denied++
			}
		}
		if len(s.Verdicts) == 0 {
			continue
		}
		day, hour := r.calendar.At(a.Instant)
		for p := range s.Verdicts {
			r.decide(s, p, a.Instant, day)
		}
		if s.Evidence != nil {
			s.Evidence.add(a, hour)
		}
	}
}

// day returns what is known of a day.
func (r *Replay) day(begin time.Time) *Day {
	d := r.days[begin.Unix()]
	if d == nil {
		n := len(r.proposals)
		d = &Day{Begin: begin, Denied: make([]uint64, n), Keys: make([]int, n), Normal: make([]int, n)}
		r.days[begin.Unix()] = d
	}
	return d
}

// decide decides a request as a proposal would.
func (r *Replay) decide(s *Subject, p int, now int64, begin time.Time) {
	v, interval := &s.Verdicts[p], r.intervals[p]
	if v.empty <= now {
		v.denying = false
	}
	empty := max(v.empty, now) + interval
	if empty-now <= int64(r.proposals[p].Cell.Burst)*interval {
		v.empty = empty
		return
	}
	v.Denied++
	day := r.day(begin)
	day.Denied[p]++
	if v.lastDay != day {
		v.lastDay = day
		day.Keys[p]++
		if !s.Key.Suspect() {
			day.Normal[p]++
		}
	}
	if v.First.IsZero() {
		v.First = time.UnixMicro(now).In(r.zone)
	}
	if !v.denying {
		v.denying, v.first = true, now
	}
	if lasted := time.Duration(now-v.first) * time.Microsecond; lasted > v.Longest || v.From.IsZero() {
		v.Longest, v.From = lasted, time.UnixMicro(v.first).In(r.zone)
	}
}

// add looks at a request.
func (e *Evidence) add(a *arrival.Arrival, hour int) {
	e.Hours[hour]++
	if class := a.Status / 100; int(class) < len(e.Statuses) {
		e.Statuses[class]++
	}
	e.paths.InsertHash(a.Path)
	for i := range e.Agents {
		if e.Agents[i].Name == string(a.Agent) {
			e.Agents[i].Requests++
			return
		}
	}
	const most = 8
	if len(e.Agents) == most {
		e.Others = true
		return
	}
	e.Agents = append(e.Agents, Agent{Name: string(a.Agent), Requests: 1})
}

// Cell returns what a limit of the frontier would have done.
func (r *Replay) Cell(c demand.Cell) Cell { return *r.cells[c] }

// Days returns the days on which a proposal would have denied a request, in order.
func (r *Replay) Days() []*Day {
	days := make([]*Day, 0, len(r.days))
	for _, d := range r.days {
		days = append(days, d)
	}
	slices.SortFunc(days, func(a, b *Day) int { return a.Begin.Compare(b.Begin) })
	return days
}

// Subjects returns the keys that a proposal denies, those with the most denials first.
func (r *Replay) Subjects() []*Subject {
	var subjects []*Subject
	for _, s := range r.keys {
		if len(s.Verdicts) > 0 {
			subjects = append(subjects, s)
		}
	}
	slices.SortFunc(subjects, func(a, b *Subject) int {
		for p := range a.Verdicts {
			if c := cmp.Compare(b.Verdicts[p].Denied, a.Verdicts[p].Denied); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(b.Key.Requests, a.Key.Requests), cmp.Compare(a.Key.Text, b.Key.Text))
	})
	for _, s := range subjects {
		if s.Evidence != nil {
			slices.SortStableFunc(s.Evidence.Agents, func(a, b Agent) int { return cmp.Compare(b.Requests, a.Requests) })
		}
	}
	return subjects
}
