package exact

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Record is all that a store keeps of a key under a spec: its state, and the notes of earlier charges that settlements
// need. The zero Record is that of a key never seen. [Record.Append] and [ReadRecord] write and read it, for stores
// outside of this process.
type Record struct {
	State State
	// Open are the open reservations.
	Open Reservations

	past  *past
	order int64 // see Pasts.order
}

// Order returns the [Charge.Order] of a charge made now.
func (r *Record) Order() int64 { return r.order }

// Number returns the number of a reservation that is noted at an instant: see [State.Note]. A record that was forgotten
// begins anew, with numbers that are higher than those before.
func (r *Record) Number(now int64) int64 {
	r.order = max(r.order+1, now)
	return r.order
}

// only is the key of a record in Pasts of its own.
var only Key

// settling returns the Pasts that a record has, for a function that changes them.
func (r *Record) settling(do func(*Pasts)) {
	p := Pasts{order: r.order, bound: 1}
	if r.past != nil {
		p.of = map[Key]*past{only: r.past}
	}
	do(&p)
	r.past, r.order = p.of[only], p.order
}

// Settle corrects a charge under a spec: see [Pasts.Settle].
func (r *Record) Settle(s *Spec, c *Correction, now int64) (changed bool) {
	r.settling(func(p *Pasts) {
		var after State
		if after, changed = p.Settle(only, s, r.State, c, now); !changed {
			return
		}
		if r.State = after; after.Blank() {
			r.State = State{}
		}
	})
	return changed
}

// Reset makes the record as good as new under a spec, and notes that earlier charges are not refunded any more. The
// latest token of a limit that holds stays.
func (r *Record) Reset(s *Spec, now int64) (changed bool) {
	if stays, taken := r.State.Vacate(s, now); stays {
		return taken
	}
	if r.State.spec == nil && r.past == nil {
		return false
	}
	specs := []*Spec{s}
	if r.State.spec != nil {
		specs = append(specs, r.State.spec)
	}
	r.settling(func(p *Pasts) { p.Reset(only, now, specs...) })
	r.State = State{}
	return true
}

// Until returns the instant from which on the record means nothing any more.
func (r *Record) Until(now int64) (until int64) {
	if s := r.State.spec; s != nil {
		u, _ := s.Observe(&r.State, now, 0)
		until = s.Keep(u, now)
	}
	if r.past != nil {
		until = max(until, r.past.until)
	}
	return max(until, r.Open.Until())
}

// written is a record as it is written.
type written struct {
	Limit    string       `json:"limit,omitempty"` // of the spec that wrote the state
	At       int64        `json:"at,omitempty"`
	Level    int64        `json:"level,omitempty"`
	Previous int64        `json:"previous,omitempty"`
	Log      []int64      `json:"log,omitempty"`
	Holders  [][4]int64   `json:"holders,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Past     *writtenPast `json:"past,omitempty"`
	Order    int64        `json:"order,omitempty"`

	TopUps []writtenTopUp `json:"topUps,omitempty"`

	Notes *writtenNotes `json:"notes,omitempty"`

	Reserved []writtenReserved `json:"reserved,omitempty"`

	// Product has the exponent, the mantissa and the epoch of a share's product, or of its cap's. Pool has the instant of the cap's,
	// and its numbers as those of notes.
	Product *[3]int64 `json:"product,omitempty"`
	Pool    *[5]int64 `json:"pool,omitempty"`
}

type writtenPast struct {
	At    int64 `json:"at"`
	Order int64 `json:"order"`
	Until int64 `json:"until"`
}

type writtenNotes struct {
	Numbers [4]int64   `json:"numbers"` // tick, weight, drain and full
	Level   int64      `json:"level"`
	At      int64      `json:"at"`
	Slots   [][2]int64 `json:"slots,omitempty"` // number and units
}

// Append appends the record as JSON.
func (r *Record) Append(b []byte) []byte {
	w := written{
		At: r.State.at, Level: r.State.level, Previous: r.State.previous, Order: r.order,
		Log: r.State.instants(), Holders: writtenHolders(r.State.holders()),
		Reserved: r.Open.written(), Reason: r.State.reason(),
	}
	if r.State.spec != nil {
		w.Limit = r.State.spec.recorded()
	}
	if r.past != nil {
		w.Past = &writtenPast{At: r.past.at, Order: r.past.order, Until: r.past.until}
	}
	if r.State.list != nil && r.State.list.notes != nil {
		n := r.State.list.notes
		w.Notes = &writtenNotes{Numbers: [4]int64{n.by.Tick, n.by.Weight, n.by.Drain, n.by.Full}, Level: n.level, At: n.at}
		for _, one := range n.slots {
			w.Notes.Slots = append(w.Notes.Slots, [2]int64{one.number, one.units})
		}
	}
	w.writeProduct(&r.State)
	w.TopUps = r.State.writtenTopUps()
	text, err := json.Marshal(w)
	if err != nil {
		panic(fmt.Sprintf("exact: %v", err)) // it is made of numbers and a text
	}
	return append(b, text...)
}

var errDamaged = errors.New("exact: no record of this limit")

// ReadRecord reads a record of a key under a spec. Any other text is an error.
func ReadRecord(text []byte, s *Spec) (r Record, err error) {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return Record{}, fmt.Errorf("exact: %w", err)
	}
	r.order = w.Order
	if r.Open, err = readReservations(w.Reserved, s); err != nil {
		return Record{}, err
	}
	if w.Limit != "" {
		spec, err := writerOf(w.Limit, s)
		if err != nil {
			return Record{}, err
		}
		r.State = State{spec: spec, at: w.At, level: w.Level, previous: w.Previous}
		if spec.Algorithm.Dated() && w.Previous-w.At > longestDated {
			return Record{}, errDamaged
		}
		if spec.Prepaid {
			r.State.list = &list{topUps: readTopUps(w.TopUps)}
		}
		if spec.Algorithm.Lists() || spec.Algorithm.Bans() {
			r.State.list = &list{instants: w.Log, holders: readHolders(w.Holders), reason: w.Reason}
		}
	}
	if !w.readProduct(&r.State) {
		return Record{}, errDamaged
	}
	if w.Past != nil {
		r.past = &past{at: w.Past.At, order: w.Past.Order, until: w.Past.Until}
	}
	if w.Notes != nil && r.State.spec != nil && r.State.spec.Algorithm.Noted() {
		by := w.Notes.Numbers
		n := &notes{by: Units{Tick: by[0], Weight: by[1], Drain: by[2], Full: by[3]}, level: w.Notes.Level, at: w.Notes.At}
		for _, one := range w.Notes.Slots {
			n.slots = append(n.slots, slot{one[0], one[1]})
		}
		r.State.ownList().notes = n
	}
	return r, w.check()
}

// recorded returns the limit as a record has it: whether it is Exact says nothing about the state.
func (s *Spec) recorded() string {
	p := s.Params
	p.Exact = false
	return p.String()
}

// writerOf returns the spec that wrote a state of a key under a spec: that one, or a named limit with
// other numbers.
func writerOf(limit string, s *Spec) (*Spec, error) {
	if limit == s.recorded() || s.Algorithm.Shares() { // its cap tells whether the numbers have changed
		return s, nil
	}
	p, err := Parse(limit)
	if err != nil || p.Name == "" || p.Name != s.Name || p.Algorithm != s.Algorithm {
		return nil, errDamaged
	}
	if p.Algorithm.Dated() && p.each() == s.Each { // its states have their windows with them
		return s, nil
	}
	p.Own = s.Own
	former := NewSpec(p, s.Identity())
	if former.Problem() != nil {
		if p.Algorithm.Dated() { // its time zone is not known here
			return s, nil
		}
		return nil, errDamaged
	}
	if s.IsShadow() {
		former = former.Shadow()
	}
	return former, nil
}

// check reports whether the numbers can be those of a record.
func (w *written) check() error {
	for _, n := range [...]int64{w.At, w.Level, w.Previous, w.Order} {
		if n < 0 || n > most {
			return errDamaged
		}
	}
	last := int64(0)
	for _, at := range w.Log { // of a ban these are its strikes
		if at < last || at > most {
			return errDamaged
		}
		last = at
	}
	last = 0
	for _, h := range w.Holders {
		places, until := h[2], h[3]
		if places < 1 || places > mostLogged || until < last || until > most {
			return errDamaged
		}
		last = until
	}
	if w.Past != nil && min(w.Past.At, w.Past.Order, w.Past.Until) < 0 {
		return errDamaged
	}
	return w.Notes.check()
}

// check reports whether the numbers can be those of notes.
func (n *writtenNotes) check() error {
	if n == nil {
		return nil
	}
	if min(n.Level, n.At) < 0 || max(n.Level, n.At) > most || len(n.Slots) > MostNotes {
		return errDamaged
	}
	last, sum := int64(0), int64(0)
	for _, one := range n.Slots {
		if one[0] <= last || one[0] > most || one[1] < 0 || one[1] > most-sum {
			return errDamaged
		}
		last, sum = one[0], sum+one[1]
	}
	return nil
}
