package exact

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// balance is the arithmetic of prepaid units, which never come back by themselves: top-ups add them, and charges take them away.
//
// Its Usage is the capacity less the units that are left, so that a balance that was never topped up is used up. No wait helps.
//
// Of a state, level has the units that are left, previous the spent ones, so that never more is given back, and at the instant
// of the last reset: charges before that get nothing back. The latest top-ups are part of the state, so that none is carried out twice.
type balance struct{}

// topUp is a top-up of a balance: how many units, when, and the name of the event that it comes from.
type topUp struct {
	id    string
	units int64
	at    int64
}

const (
	// MostPrepaid is how many units a balance has at most: a header field has 15 digits.
	MostPrepaid = 999_999_999_999_999
	// MostTopUps is how many top-ups a balance remembers.
	MostTopUps = 128
	// longestTopUp bounds the name of a top-up.
	longestTopUp = 128
	// RememberedEmpty is how many microseconds a balance without units is remembered, and its top-ups with it.
	RememberedEmpty = int64(30 * day / time.Microsecond)
)

// BalanceParams returns the Params of a balance without a name.
func BalanceParams() Params {
	most := min(MostPrepaid, math.MaxInt)
	return Params{Algorithm: Balance, Capacity: most, Events: most}
}

func (balance) units(p *Params) (Units, error) {
	return Units{Tick: 1, Weight: 1, Full: int64(p.Capacity)}, nil
}

func (balance) numbers(*Units) []int64 { return nil }

func (balance) observe(s *Spec, st *State, _ int64, _ int) (Usage, bool) {
	return Usage{Used: s.Full - st.level}, false
}

func (balance) store(s *Spec, st *State, u Usage, _ int64, cost int, _ Holder) {
	st.spend(s.Full-u.Used, int64(cost))
}

// spend takes units away from the ones that were left, or gives some back if they are below 0.
func (st *State) spend(left, units int64) {
	st.level, st.previous = left-units, min(st.previous+units, most)
}

func (balance) settle(s *Spec, st *State, now int64, c *Correction) bool {
	if c.TopUp != "" {
		return st.topUp(s, now, c)
	}
	units := min(int64(c.Events), st.level)
	if units < 0 {
		units = max(units, -st.previous, st.level-s.Full)
	}
	if units == 0 || c.Raise || units < 0 && c.At.At != 0 && c.At.At <= st.at {
		return false
	}
	st.spend(st.level, units)
	return true
}

// topUp adds the units of a correction, unless its top-up is known. The correction is Lost then.
func (st *State) topUp(s *Spec, now int64, c *Correction) bool {
	own := st.ownList()
	if c.Lost = slices.ContainsFunc(own.topUps, func(one topUp) bool { return one.id == c.TopUp }); c.Lost {
		return false
	}
	st.level = min(st.level+int64(c.Events), s.Full)
	own.topUps = append(own.topUps, topUp{c.TopUp, int64(c.Events), now})
	own.topUps = own.topUps[max(0, len(own.topUps)-MostTopUps):]
	return true
}

// TopUpProblem returns the reason why a top-up cannot have a name, or nil.
func TopUpProblem(id string) error {
	if id == "" || len(id) > longestTopUp {
		return fmt.Errorf("the id of a top-up has %d bytes, want 1 to %d", len(id), longestTopUp)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("the id of a top-up has %q at byte %d: use printable ASCII without spaces", id[i], i)
		}
	}
	return nil
}

func (balance) fits(s *Spec, u Usage, cost int) bool { return int64(cost) <= s.Full-u.Used }

func (balance) wait(*Spec, Usage, int) int64 { return 0 } // see Traits.Prepaid

func (balance) longer(*Spec, int, int) (int64, bool) { return 0, true }

func (balance) charged(_ *Spec, u Usage, cost int) Usage {
	u.Used += int64(cost)
	return u
}

func (balance) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	return int(s.Full - u.Used), 0, 0
}

func (balance) reset(*Spec, Usage) int64 { return 0 }

// keepBalance returns the instant until which a balance is kept after a usage: for good while it has units.
func keepBalance(s *Spec, u Usage, now int64) int64 {
	if u.Used < s.Full {
		return most
	}
	return now + RememberedEmpty
}

// ToppedUp is a top-up of a balance, for consoles. The instant is in microseconds since 1970.
type ToppedUp struct {
	ID    string
	Units int64
	At    int64
}

// Prepaid returns how many units are left of a balance, and how many were spent.
func (st *State) Prepaid() (left, spent int64) { return st.level, st.previous }

// ToppedUp returns the latest top-ups of a balance, the oldest first.
func (st *State) ToppedUp() []ToppedUp {
	if st.list == nil {
		return nil
	}
	list := make([]ToppedUp, 0, len(st.list.topUps))
	for _, one := range st.list.topUps {
		list = append(list, ToppedUp{one.id, one.units, one.at})
	}
	return list
}

// empty takes all units of a balance away, and reports whether there were any. Its top-ups are still known, and charges of before get
// nothing back.
func (st *State) empty(now int64) (had bool) {
	had = st.level > 0 || st.previous > 0
	st.level, st.previous, st.at = 0, 0, now
	return had
}

// writtenTopUp is a top-up as a record has it.
type writtenTopUp struct {
	ID      string   `json:"id"`
	Numbers [2]int64 `json:"numbers"` // units and instant
}

func (st *State) writtenTopUps() (list []writtenTopUp) {
	for _, one := range st.ToppedUp() {
		list = append(list, writtenTopUp{one.ID, [2]int64{one.Units, one.At}})
	}
	return list
}

func readTopUps(list []writtenTopUp) (topUps []topUp) {
	for _, w := range list {
		topUps = append(topUps, topUp{w.ID, w.Numbers[0], w.Numbers[1]})
	}
	return topUps
}
