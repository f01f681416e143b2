package exact

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A limit with debt counts as one of a larger capacity, of which each check leaves the debt to settlements, as if that were its
// headroom. So buckets need nothing else. A window that closes in debt is followed by others, which pay: see Units.Each.

// withDebt returns the Params of a limit that checks may use as far as settlements may use this one.
func (p Params) withDebt() (Params, error) {
	switch {
	case p.Debt == 0:
		return p, nil
	case p.Debt < 0:
		return p, fmt.Errorf("debt %d is less than 0", p.Debt)
	case p.Algorithm.Shares():
		return p, errors.New("is a share of a limit with debt, which cannot be shared")
	case !table[p.Algorithm].owes:
		return p, fmt.Errorf("has no debt: %s", withoutDebt)
	case p.Algorithm.Dated() && p.Debt > p.Capacity:
		return p, fmt.Errorf("debt is more than the capacity of %d: one window of a calendar pays it all", p.Capacity)
	case p.Debt == math.MaxInt:
		return p.withMostDebt()
	case p.Debt > math.MaxInt-p.Capacity:
		return p, fmt.Errorf("capacity %d and debt %d are too much", p.Capacity, p.Debt)
	case p.Algorithm.Windowed() && !p.Algorithm.Dated() && int64(p.Debt/p.Capacity) >= int64(Longest/p.Period):
		return p, fmt.Errorf("takes more than %d years to pay the debt", Longest/(365*day))
	}
	p.Capacity += p.Debt
	return p, nil
}

// withoutDebt says why a limit of another algorithm has no debt.
const withoutDebt = "a leaky bucket, a token bucket, GCRA, a fixed window or a calendar can have one, which drains or is paid by the next windows"

// withMostDebt is withDebt for as much as can be counted, and paid back in the longest time.
func (p Params) withMostDebt() (Params, error) {
	u, err := table[p.Algorithm].arithmetic.units(&p)
	if err != nil {
		return p, err
	}
	if p.Algorithm.Windowed() {
		u.Drain, u.Tick = int64(p.Capacity), p.Period.Microseconds() // as much in each window
	}
	units, ok := multiply(u.Drain, Longest.Microseconds()/u.Tick)
	if !ok {
		units = most
	}
	p.Capacity = max(p.Capacity, int(min(units, most)/u.Weight))
	return p, nil
}

// each returns [Units.Each].
func (p *Params) each() int64 {
	if p.Debt == 0 || !p.Algorithm.Windowed() {
		return 0
	}
	return int64(p.Capacity)
}

// owes reports whether a correction of a window counts whichever window is open: missing units are owed.
func (s *Spec) owes(c *Correction) bool { return s.Each > 0 && c.Events > 0 }

// debtMark stands in front of the debt in a derived name.
const debtMark = ":debt:"

// appendDebt appends the debt: a number, or "unlimited".
func (p *Params) appendDebt(b []byte) []byte {
	if p.Debt == math.MaxInt {
		return append(b, unlimitedName...)
	}
	return strconv.AppendInt(b, int64(p.Debt), 10)
}

// parseDebt takes the debt off the end of a pace, if there is one.
func (p *Params) parseDebt(pace string) (rest string, err error) {
	last := strings.LastIndexByte(pace, ',')
	debt, found := strings.CutPrefix(strings.TrimSpace(pace[last+1:]), "debt ")
	if last < 0 || !found {
		return pace, nil
	}
	if debt = strings.TrimSpace(debt); debt == unlimitedName {
		p.Debt = math.MaxInt
	} else if p.Debt, err = parseNumber("debt", debt); err == nil && p.Debt == 0 {
		err = errors.New("a debt of 0 is none: leave it out")
	}
	return strings.TrimSpace(pace[:last]), err
}
