package exact

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"unique"
)

// fair is the arithmetic of a tenant's share of a cap, which is a meter that many tenants fill.
//
// A share has a level: the part of the cap's level that the tenant was charged. The tenant may be charged more if its level stays within the free part of
// the cap, or, with a weight of w, within w times that. So n greedy tenants of the weight 1 hold 1/(n+1) of the cap each and leave as
// much free. When the cap drains from L to L′, the level of each tenant shrinks by L′/L. Nothing is kept of that for a tenant:
// the product of these factors is beside the cap's level, and its value as of the tenant's last charge beside the tenant's.
//
// The levels of tenants are counted in parts of the cap's units, of which the capacity is less than 2^52: see [Spec.scale]. Each
// rounding is upward, and by one part. A level lapses when the cap would have drained all that it had when the tenant was charged
// last: no unit stays longer in a queue.
//
// Of its State, at is the instant of the tenant's last charge, and previous the cap's level then.
//
// Its Usage is the tenant's level in parts, the microseconds until that lapses, the cap's level in units, and the product in short: see
// [product.short].
type fair struct{}

// FairTerms are the terms of a share, besides the numbers of its cap. They are comparable.
type FairTerms struct {
	// Of is the algorithm of the cap.
	Of Algorithm
	// Tenant is the name of the tenant: see isTenant.
	Tenant string
	// Weight is how many times as much as is free the tenant may hold.
	Weight int
}

const (
	// MostWeight bounds the weight of a tenant.
	MostWeight = 1000
	// longestTenant bounds the name of a tenant, escaped.
	longestTenant = 300
)

// FairParams returns the Params of a tenant's share of a cap.
func FairParams(of Params, tenant string, weight int) Params {
	p := of
	p.Algorithm, p.Exact = FairShare, false
	p.Fair = unique.Make(FairTerms{Of: of.Algorithm, Tenant: tenant, Weight: weight})
	return p
}

// traits changes the traits of a share: the headroom of its cap's check counts as often as its weight says.
func (t *FairTerms) traits(p *Params, own *Traits) {
	own.Shared = true
	if t.Weight >= 1 && p.Capacity <= math.MaxInt/(2*MostWeight) {
		own.MostFitting, own.MostNeeded = p.Capacity*t.Weight, p.Capacity*t.Weight+1
	}
}

// WeighHeadroom returns how many events have to stay free beside those of a share, for a headroom of its cap's check.
func (s *Spec) WeighHeadroom(headroom int) int {
	return min(headroom, s.MostNeeded) * s.fairTerms().Weight
}

// fairTerms returns the terms of Params, which are zero if they are of no share.
func (p *Params) fairTerms() FairTerms {
	if p.Fair == (unique.Handle[FairTerms]{}) {
		return FairTerms{}
	}
	return p.Fair.Value()
}

// unweighted returns the Params of a share without the weight, which is no part of a state.
func (p Params) unweighted() Params {
	terms := p.fairTerms()
	terms.Weight = 0
	p.Fair = unique.Make(terms)
	return p
}

// Shares reports whether the limits of the algorithm are the shares of tenants of a cap.
func (a Algorithm) Shares() bool { return a == FairShare }

// IsCapOf reports whether a share is one of a cap under a spec.
func (s *Spec) IsCapOf(share *Spec) bool {
	if share.Algorithm != FairShare || s.IsShadow() != share.IsShadow() || s.Units != share.Units {
		return false
	}
	return share.fairTerms().Of == s.Algorithm && share.Name == s.Name && share.Capacity == s.Capacity && share.Events == s.Events && share.Period == s.Period
}

func (fair) units(p *Params) (Units, error) {
	terms := p.fairTerms()
	switch {
	case terms == FairTerms{}:
		return Units{}, errors.New("names no tenant: use core.FairShare")
	case !table[terms.Of].shared:
		return Units{}, fmt.Errorf("is a share of %s: only a leaky bucket or a token bucket can be shared", aLimitOf(terms.Of))
	case terms.Tenant == "":
		return Units{}, errors.New("the tenant has no name")
	case !isTenant(terms.Tenant):
		return Units{}, fmt.Errorf("tenant %.40q has characters that have to be escaped", terms.Tenant)
	case terms.Weight < 1 || terms.Weight > MostWeight:
		return Units{}, fmt.Errorf("weight %d is not from 1 to %d", terms.Weight, MostWeight)
	}
	u, err := meter{}.units(p)
	if err == nil && u.Full >= parts/(2*spare) {
		return Units{}, errors.New("has too many units to be shared: give it a smaller capacity, or a rate of whole events in a shorter period")
	}
	return u, err
}

// aLimitOf names an algorithm in an error.
func aLimitOf(a Algorithm) string {
	if a == None {
		return "no limit"
	}
	return a.String()
}

// isTenant reports whether a text can stand as a tenant in the names of states.
func isTenant(text string) bool {
	return len(text) <= longestTenant && !strings.ContainsAny(text, " \t\r\n,:={}")
}

func (fair) numbers(u *Units) []int64 { return meter{}.numbers(u) }

// parts bounds how many parts the capacity of a cap has.
const parts = 1 << 52

// spare is how many parts of a level do not count: more than the roundings of some decisions add. So a level that is a whole number of
// units counts as that number. A unit has at least twice as many parts.
const spare = 1 << 5

// guard is how many parts a wait adds to a level, which are more than the roundings of one decision. So it is never too short, and
// too long by a tick at most.
const guard = 1 << 3

// scale returns how many parts a unit has: a power of 2.
func (s *Spec) scale() int64 { return 1 << (bits.Len64(parts-1) - bits.Len64(uint64(s.Full))) }

// heldUnits returns the level of a tenant in whole units.
func (s *Spec) heldUnits(level int64) int64 {
	if level <= spare {
		return 0
	}
	return DivideUp(level-spare, s.scale())
}

// product is a product of factors from 0 to 1: m · 2^-(52+e), where m is above 2^51 and at most 2^52.
type product struct {
	m, e int64
	// epoch is when it began. Products that began at another time do not compare.
	epoch int64
}

// newProduct returns a product of no factors that begins now, after another one.
func newProduct(now int64, after product) product {
	return product{m: parts, epoch: max(now, after.epoch+1)}
}

// times returns the product with one more factor: level/(level+drained), rounded up.
func (p product) times(level, drained float64) product {
	m := min(float64(p.m), math.Floor(float64(p.m)*(level/(level+drained)))+1)
	for m <= parts/2 {
		m *= 2
		p.e++
	}
	p.m = int64(m)
	return p
}

// per returns the quotient of a product and an earlier one.
func (p product) per(earlier product) float64 {
	if p.e < earlier.e || p.e-earlier.e > longestExponent {
		return 0
	}
	return math.Ldexp(float64(p.m)/float64(earlier.m), int(earlier.e-p.e))
}

// longestExponent bounds the quotients that differ from 0.
const longestExponent = 100

// A product in short is a number of 52 bits, for receipts: 40 bits of m, and above these the lowest 12 of e.
const (
	shortened = 1 << 12
	shortBits = 1 << 40
)

func (p product) short() int64 { return p.e%shortened*shortBits + (p.m-1)/shortened }

// perShort returns the quotient of a product and an earlier one in short, but 1 at most: so that the quotient of the same one is 1.
func (p product) perShort(earlier int64) float64 {
	e := (p.e - earlier/shortBits + shortened) % shortened
	if e > longestExponent {
		return 0
	}
	return min(1, math.Ldexp(float64(p.m)/float64(earlier%shortBits*shortened+1), -int(e)))
}

// pool is the memory of a cap for its tenants.
type pool struct {
	product

	at int64 // the instant up to which the product has the factors
	by Units // the numbers of the cap
}

// pool returns the memory of a cap for its tenants, or nil.
func (st *State) pool() *pool {
	if st.list == nil {
		return nil
	}
	return st.list.pool
}

// onlyPool returns a list with nothing but the pool of a state, or nil if there is none.
func (st *State) onlyPool() *list {
	if p := st.pool(); p != nil {
		return &list{pool: p}
	}
	return nil
}

// held returns the product as of the last charge of a tenant.
func (st *State) held() product {
	if st.list == nil {
		return product{}
	}
	return st.list.held
}

// Product is found by [Spec.ObserveShare], for [Spec.StoreShare].
type Product struct{ product }

// ObserveShare is Observe of a share beside the state of its cap, of which some units are used.
func (s *Spec) ObserveShare(st, of *State, used, now int64) (u Usage, found Product) {
	found.product = s.productOf(of.pool(), used, now)
	u = Usage{Third: used, Fourth: found.short()}
	if held := st.held(); held.epoch == found.epoch && now < s.lapse(st) {
		u.Second = s.lapse(st) - s.ticks(now)*s.Tick
		if u.Used = st.level; held != found.product {
			u.Used = min(st.level, int64(math.Floor(float64(st.level)*found.per(held)))+1)
		}
		u.Used = min(u.Used, used*s.scale())
	}
	return u, found
}

// lapse returns the instant from which on a tenant holds nothing.
func (s *Spec) lapse(st *State) int64 { return st.at + DivideUp(st.previous, s.Drain)*s.Tick }

// productOf returns the product of a pool, which may be nil, for a level of its cap at an instant.
func (s *Spec) productOf(of *pool, used, now int64) product {
	switch {
	case of == nil:
		return newProduct(now, product{})
	case used == 0 || of.by != s.Units:
		return newProduct(now, of.product)
	}
	elapsed := s.ticks(now) - s.ticks(of.at)
	if elapsed <= 0 {
		return of.product
	}
	return of.times(float64(used), float64(elapsed)*float64(s.Drain))
}

// StoreShare is Store of a share beside the state of its cap, which has been stored.
func (s *Spec) StoreShare(st, of *State, u Usage, found Product, now int64, cost int) {
	present := s.ticks(now) * s.Tick
	st.spec, st.level, st.at, st.previous = s, u.Used+s.Weigh(cost)*s.scale(), present, u.Third+s.Weigh(cost)
	st.list = &list{held: found.product}
	of.ownList().pool = &pool{product: found.product, at: present, by: s.Units}
}

// observe observes a share of which the cap is not known: it takes the tenant for the only one.
func (fair) observe(s *Spec, st *State, now int64, _ int) (Usage, bool) {
	if st.spec == nil || now >= s.lapse(st) {
		return Usage{}, false
	}
	units := min(s.Full, s.heldUnits(st.level))
	return Usage{Used: st.level, Second: s.lapse(st) - s.ticks(now)*s.Tick, Third: units, Fourth: st.held().short()}, false
}

func (fair) store(*Spec, *State, Usage, int64, int, Holder) {
	panic("exact: a share is stored beside its cap")
}

// settle corrects the part of a charge that had not drained at the tenant's last charge.
func (fair) settle(s *Spec, st *State, now int64, c *Correction) bool {
	held := st.held()
	if st.spec == nil || now >= s.lapse(st) || c.Raise || c.At.At != 0 && c.At.At < held.epoch {
		return false
	}
	units := s.weighed(max(int64(c.Events), -int64(c.Events)))
	change := float64(units * s.scale())
	if c.At.At != 0 {
		change = math.Floor(change * held.perShort(c.At.Used))
	}
	level, of := max(0, st.level-int64(change)), max(0, st.previous-units)
	if c.Events > 0 {
		level, of = min(s.Full*s.scale(), st.level+int64(change)), min(s.Full, st.previous+units)
	}
	if level == 0 {
		of = 0
	}
	st.level, st.previous = level, of
	return true
}

// after returns the free units of the cap after some ticks without other charges, and the units of the tenant then.
func (s *Spec) after(u Usage, ticks int64) (free, held int64) {
	drained := u.Third
	if ticks < DivideUp(u.Third, s.Drain) {
		drained = ticks * s.Drain
	}
	free = s.Full - u.Third + drained
	if drained == u.Third || ticks*s.Tick >= u.Second {
		return free, 0
	}
	level := u.Used
	if drained > 0 {
		level = min(level, int64(math.Floor(float64(level)*(float64(u.Third-drained)/float64(u.Third))))+1+guard)
	}
	return free, s.heldUnits(level)
}

// roomAfter returns how many units the tenant may be charged after some ticks, if the cap has room for them.
func (s *Spec) roomAfter(u Usage, ticks int64) int64 {
	free, held := s.after(u, ticks)
	return int64(s.fairTerms().Weight)*free - held
}

func (fair) fits(s *Spec, u Usage, cost int) bool { return s.Weigh(cost) <= s.roomAfter(u, 0) }

func (fair) wait(s *Spec, u Usage, cost int) int64 {
	return s.firstTick(u, func(ticks int64) bool { return s.Weigh(cost) <= s.roomAfter(u, ticks) })
}

// firstTick returns how long it takes until something is true, or until the cap is empty. It stays true then.
func (s *Spec) firstTick(u Usage, isTrue func(ticks int64) bool) int64 {
	ticks := sort.Search(int(DivideUp(u.Third, s.Drain)), func(ticks int) bool { return isTrue(int64(ticks)) })
	return int64(ticks) * s.Tick
}

func (fair) longer(*Spec, int, int) (int64, bool) { return 0, false }

func (f fair) charged(s *Spec, u Usage, cost int) Usage {
	units := s.Weigh(cost)
	u.Used, u.Third = u.Used+units*s.scale(), u.Third+units
	u.Second = f.reset(s, u)
	return u
}

func (f fair) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	room := func(ticks int64) int64 {
		free, _ := s.after(u, ticks)
		return min(free, s.roomAfter(u, ticks))
	}
	if remaining = int(max(0, room(0)) / s.Weight); u.Third == 0 {
		return remaining, 0, 0
	}
	next = s.firstTick(u, func(ticks int64) bool { return room(ticks) >= s.Weigh(remaining+1) })
	return remaining, next, f.reset(s, u)
}

func (fair) reset(s *Spec, u Usage) int64 { return DivideUp(u.Third, s.Drain) * s.Tick }

// PairWord returns the argument of the script for a cap and a share of it that has the cost of both, the weight and the cap's algorithm.
func (s *Spec) PairWord(cost int64) any {
	terms := s.fairTerms()
	return strconv.FormatInt(cost, 10) + " " + strconv.Itoa(terms.Weight) + " " + terms.Of.String()
}

// appendFair appends the terms of a share to the text of its cap: ", of leaky, tenant acme, weight 3".
func (p *Params) appendFair(b []byte) []byte {
	terms := p.fairTerms()
	b = append(append(b, ", of "...), terms.Of.String()...)
	b = append(append(b, ", tenant "...), terms.Tenant...)
	return strconv.AppendInt(append(b, ", weight "...), int64(terms.Weight), 10)
}

// parseFair reads the text of a share behind its capacity: the rate of the cap, and the terms in their order.
func (p *Params) parseFair(text string) (err error) {
	fields := strings.Split(text, ",")
	if len(fields) != 4 {
		return fmt.Errorf("want the rate of the cap, its algorithm, a tenant and a weight, as in %q", "fair-share 200, 100/s, of leaky, tenant acme, weight 1")
	}
	if p.Events, p.Period, err = parseRate(strings.TrimSpace(fields[0])); err != nil {
		return err
	}
	terms := FairTerms{}
	for i, name := range [...]string{"of", "tenant", "weight"} {
		words := strings.Fields(fields[i+1])
		if len(words) != 2 || words[0] != name {
			return fmt.Errorf("%q is not the word %q and its value", strings.TrimSpace(fields[i+1]), name)
		}
		switch name {
		case "of":
			terms.Of, _ = AlgorithmNamed(words[1])
		case "tenant":
			terms.Tenant = strings.Clone(words[1])
		default:
			terms.Weight, err = parseNumber(name, words[1])
		}
	}
	p.Fair = unique.Make(terms)
	return err
}

// appendTenant returns the name of a state. To that of a share it adds the algorithm of a cap with a name, and the tenant.
func (p *Params) appendTenant(name string) string {
	if !p.Algorithm.Shares() {
		return name
	}
	terms := p.fairTerms()
	if p.Name != "" {
		name += ":" + terms.Of.String()
	}
	return name + ":" + terms.Tenant
}

// CutTenant takes the name of a share's state apart: the name of the cap, given or derived, and the tenant. named says that it was
// given. It returns false for another name.
func CutTenant(name string, named bool) (of, tenant string, ok bool) {
	last := strings.LastIndexByte(name, ':')
	if last < 0 {
		return "", "", false
	}
	of, tenant = name[:last], name[last+1:]
	if named {
		last = strings.LastIndexByte(of, ':')
		if last < 0 {
			return "", "", false
		}
		of = of[:last]
	}
	return of, tenant, tenant != ""
}

// writeProduct writes the product of a share or its cap into a record.
func (w *written) writeProduct(st *State) {
	p := st.held()
	if own := st.pool(); own != nil {
		p = own.product
		w.Pool = &[5]int64{own.at, own.by.Tick, own.by.Weight, own.by.Drain, own.by.Full}
	}
	if p != (product{}) {
		w.Product = &[3]int64{p.e, p.m, p.epoch}
	}
}

// readProduct reads the product of a record, and reports whether it makes sense.
func (w *written) readProduct(st *State) (ok bool) {
	if w.Product == nil {
		return w.Pool == nil
	}
	p := product{e: w.Product[0], m: w.Product[1], epoch: w.Product[2]}
	if st.spec == nil || min(p.e, p.epoch) < 0 || max(p.e, p.epoch) > most || p.m <= parts/2 || p.m > parts {
		return false
	}
	if w.Pool == nil {
		st.ownList().held = p
		return st.spec.Algorithm.Shares()
	}
	n := w.Pool
	st.ownList().pool = &pool{product: p, at: n[0], by: Units{Tick: n[1], Weight: n[2], Drain: n[3], Full: n[4]}}
	return n[0] >= 0 && n[0] <= most
}
