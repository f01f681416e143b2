// Package replay says which requests limits would have denied: it goes through the requests of the keys that need more than a limit gives,
// and decides each of them as the limit would.
package replay

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/axiomhq/hyperloglog"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// The bounds of what a replay keeps: buckets of single keys under single limits, and keys that are looked at request by request.
const (
	MostBuckets = 500_000
	MostKeys    = 2_000
)

// Replay decides the requests of keys. It is an [arrival.Sink], and must not be used concurrently. Its [Replay.Parts] can be.
type Replay struct {
	zone      *time.Location
	proposals []demand.Proposal
	intervals []int64                 // of the proposals
	cells     []Cell                  // of the frontier: rate by rate, and of each the bursts in order
	perEvent  [demand.RateCount]int64 // microseconds, by rate
	slack     []int64                 // how full a bucket may be that has room for one more event, in microseconds, by cell
	parts     []*part
}

// part decides the requests of some of the keys. Whatever their number, the parts count the same in all: nothing that is decided about a key
// depends on another key.
type part struct {
	*Replay

	number   uint64
	calendar *arrival.Calendar
	keys     map[uint64]*Subject
	denied   []uint64       // requests, by cell
	days     map[int64]*Day // by their begin, in seconds since 1970
}

// mostParts is how many parts there are at most.
const mostParts = 16

// Cell counts the requests that a limit of the frontier would have denied.
type Cell struct {
	demand.Cell

	Keys, Normal int    // that it denies at least once: all, and the ones that do not look like abuse
	Counted      bool   // whether Denied was counted
	Denied       uint64 // requests
}

// Day counts the requests that the proposals would have denied on a day.
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

	runs  []run
	empty []int64 // of each bucket, run by run: the instant at which it will be empty
}

// run is some limits of the frontier in a row that deny a key. All have the same rate.
type run struct {
	rate        uint16
	first, past uint16 // the number of the first cell, and of the one that follows them
}

// Verdict counts the requests of a key that a proposal would have denied.
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
	return inParts(d, proposals, zone, min(runtime.GOMAXPROCS(0), mostParts))
}

// inParts returns a replay that has a number of parts.
func inParts(d *demand.Demand, proposals []demand.Proposal, zone *time.Location, parts int) *Replay {
	r := &Replay{zone: zone, proposals: proposals}
	for i := range parts {
		r.parts = append(r.parts, &part{
			Replay: r, number: uint64(i), calendar: arrival.NewCalendar(zone), keys: make(map[uint64]*Subject),
			denied: make([]uint64, demand.RateCount*len(demand.Bursts)), days: make(map[int64]*Day),
		})
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
	r.cells = make([]Cell, demand.RateCount*len(demand.Bursts))
	byKeys := make([]*Cell, len(r.cells))
	r.slack = make([]int64, len(r.cells))
	for i := range r.cells {
		rate, burst := i/len(demand.Bursts), demand.Bursts[i%len(demand.Bursts)]
		r.cells[i] = Cell{Cell: demand.Cell{Rate: rate, Burst: burst}, Keys: d.All[rate].Above(burst), Normal: d.Normal[rate].Above(burst)}
		r.perEvent[rate] = demand.Interval(rate).Microseconds()
		r.slack[i] = int64(burst-1) * r.perEvent[rate]
		byKeys[i] = &r.cells[i]
	}
	// Of a rate, the largest bursts are counted.
	slices.SortStableFunc(byKeys, func(a, b *Cell) int { return cmp.Or(cmp.Compare(a.Keys, b.Keys), cmp.Compare(b.Burst, a.Burst)) })
	room := MostBuckets
	for _, c := range byKeys {
		if room -= c.Keys; room < 0 {
			break
		}
		c.Counted = true
	}
	for _, k := range d.Keys {
		if runs, buckets := r.runsOf(k); buckets > 0 {
			s := r.subject(k)
			s.runs, s.empty = runs, make([]int64, buckets)
		}
	}
}

// runsOf returns the limits that deny a key and are counted, and how many these are.
func (r *Replay) runsOf(k *demand.Key) (runs []run, buckets int) {
	for rate := range demand.RateCount {
		first := rate * len(demand.Bursts)
		needed, _ := slices.BinarySearch(demand.Bursts, k.Need(rate)) // how many bursts are too small
		past := first + needed
		for first < past && !r.cells[first].Counted {
			first++
		}
		if first < past {
			runs = append(runs, run{uint16(rate), uint16(first), uint16(past)})
			buckets += past - first
		}
	}
	return slices.Clip(runs), buckets
}

func (r *Replay) subject(k *demand.Key) *Subject {
	p := r.partOf(k.Hash)
	s := p.keys[k.Hash]
	if s == nil {
		s = &Subject{Key: k}
		p.keys[k.Hash] = s
	}
	return s
}

// partOf returns the part that decides the requests of a key.
func (r *Replay) partOf(hash uint64) *part { return r.parts[hash%uint64(len(r.parts))] }

// Parts returns sinks that decide the requests between them: each of them has to be given all. They may be used at the same time.
func (r *Replay) Parts() []arrival.Sink {
	sinks := make([]arrival.Sink, len(r.parts))
	for i, p := range r.parts {
		sinks[i] = p
	}
	return sinks
}

// Keep says how much of a key's requests is needed. It may be called concurrently, until the first call of Second.
func (r *Replay) Keep(hash uint64) arrival.Part {
	switch s := r.partOf(hash).keys[hash]; {
	case s == nil:
		return arrival.None
	case s.Evidence == nil:
		return arrival.When
	}
	return arrival.All
}

// Second implements arrival.Sink.
func (r *Replay) Second(arrivals []arrival.Arrival) {
	for _, p := range r.parts {
		p.Second(arrivals)
	}
}

// Second implements arrival.Sink. It leaves out the requests of keys that are not its own, or that no limit denies.
func (p *part) Second(arrivals []arrival.Arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		if a.Hash%uint64(len(p.parts)) != p.number {
			continue
		}
		s := p.keys[a.Hash]
		if s == nil {
			continue
		}
		p.count(s, a.Instant)
		if len(s.Verdicts) == 0 {
			continue
		}
		day, hour := p.calendar.At(a.Instant)
		for proposal := range s.Verdicts {
			p.decide(s, proposal, a.Instant, day)
		}
		if s.Evidence != nil {
			s.Evidence.add(a, hour)
		}
	}
}

// count decides a request as each limit of the frontier would. It has no branches, since a processor cannot predict them.
func (p *part) count(s *Subject, now int64) {
	empty := s.empty
	for _, run := range s.runs {
		perEvent, slack, denied := p.perEvent[run.rate], p.slack[run.first:run.past], p.denied[run.first:run.past]
		of := empty[:len(slack)]
		empty = empty[len(slack):]
		for i := range of {
			full := max(of[i]-now, 0)
			no := uint64(slack[i]-full) >> 63 // 1 if there is no room, and else 0
			of[i] = now + full + perEvent&(int64(no)-1)
			denied[i] += no
		}
	}
}

// day returns the counts of a day.
func (p *part) day(begin time.Time) *Day {
	d := p.days[begin.Unix()]
	if d == nil {
		d = newDay(begin, len(p.proposals))
		p.days[begin.Unix()] = d
	}
	return d
}

func newDay(begin time.Time, proposals int) *Day {
	return &Day{Begin: begin, Denied: make([]uint64, proposals), Keys: make([]int, proposals), Normal: make([]int, proposals)}
}

// decide decides a request as a proposal would.
func (p *part) decide(s *Subject, proposal int, now int64, begin time.Time) {
	v, interval := &s.Verdicts[proposal], p.intervals[proposal]
	if v.empty <= now {
		v.denying = false
	}
	empty := max(v.empty, now) + interval
	if empty-now <= int64(p.proposals[proposal].Cell.Burst)*interval {
		v.empty = empty
		return
	}
	v.Denied++
	day := p.day(begin)
	day.Denied[proposal]++
	if v.lastDay != day {
		v.lastDay = day
		day.Keys[proposal]++
		if !s.Key.Suspect() {
			day.Normal[proposal]++
		}
	}
	if v.First.IsZero() {
		v.First = time.UnixMicro(now).In(p.zone)
	}
	if !v.denying {
		v.denying, v.first = true, now
	}
	if lasted := time.Duration(now-v.first) * time.Microsecond; lasted > v.Longest || v.From.IsZero() {
		v.Longest, v.From = lasted, time.UnixMicro(v.first).In(p.zone)
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
		if e.Agents[i].Name == a.Agent {
			e.Agents[i].Requests++
			return
		}
	}
	const most = 8
	if len(e.Agents) == most {
		e.Others = true
		return
	}
	e.Agents = append(e.Agents, Agent{Name: a.Agent, Requests: 1})
}

// Cell returns the counts of a limit of the frontier.
func (r *Replay) Cell(c demand.Cell) Cell {
	at, _ := slices.BinarySearch(demand.Bursts, c.Burst)
	at += c.Rate * len(demand.Bursts)
	found := r.cells[at]
	for _, p := range r.parts {
		found.Denied += p.denied[at]
	}
	return found
}

// Days returns the days on which a proposal would have denied a request, in order.
func (r *Replay) Days() []*Day {
	all := make(map[int64]*Day)
	for _, p := range r.parts {
		for at, of := range p.days {
			d := all[at]
			if d == nil {
				d = newDay(of.Begin, len(r.proposals))
				all[at] = d
			}
			for i := range r.proposals {
				d.Denied[i] += of.Denied[i]
				d.Keys[i] += of.Keys[i]
				d.Normal[i] += of.Normal[i]
			}
		}
	}
	days := slices.Collect(maps.Values(all))
	slices.SortFunc(days, func(a, b *Day) int { return a.Begin.Compare(b.Begin) })
	return days
}

// Subjects returns the keys that a proposal denies, those with the most denials first.
func (r *Replay) Subjects() []*Subject {
	var subjects []*Subject
	for _, p := range r.parts {
		for _, s := range p.keys {
			if len(s.Verdicts) > 0 {
				subjects = append(subjects, s)
			}
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
