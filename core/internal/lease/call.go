package lease

import (
	"slices"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Wanted is a check of a call: units that are wanted of a key under a spec.
type Wanted struct {
	Key   string
	Spec  *exact.Spec
	Units int
	// Charges says that the check charges the key.
	Charges bool
	// StoreOnly says that only the store can answer the check, since it asks for more than its units.
	StoreOnly bool
}

// SpendAll spends the units of all checks of a call, and passes told the units spent for each check, by its place. It
// reports whether it could. Otherwise it spends none, and the store has to be asked. Then it ends the keys' grants under
// other numbers of a named limit.
func (s *Set) SpendAll(checks []Wanted, told func(place int, spent Spent)) bool {
	if !storeOnly(checks) && s.spendEach(checks, told) {
		return true
	}
	for i := range checks {
		if c := &checks[i]; c.Charges && c.Spec.Name != "" {
			s.Renumber(c.Key, c.Spec)
		}
	}
	return false
}

// storeOnly reports whether only the store can answer a call.
func storeOnly(checks []Wanted) bool {
	return slices.ContainsFunc(checks, func(c Wanted) bool { return c.StoreOnly })
}

func (s *Set) spendEach(checks []Wanted, told func(place int, spent Spent)) bool {
	var few [4]Spent
	all := few[:0]
	for i := range checks {
		c := &checks[i]
		spent, ok := s.Spend(c.Key, c.Spec, c.Units)
		if !ok {
			for _, earlier := range all {
				earlier.Undo()
			}
			return false
		}
		all = append(all, spent)
		told(i, spent)
	}
	return true
}

// Meter returns the limit that is charged together with each grant of a spec, or false if there is none.
func (s *Set) Meter(spec *exact.Spec) (exact.Params, bool) {
	meter := TermsOf(spec, s.config.Over).Meter
	return meter, meter.Algorithm != exact.None
}
