package exact

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// String returns the limit in its canonical form, which [Parse] reads back: "login: leaky 10, 5/2s",
// "fixed-window 5, 15m", "balance", "gcra 10, 1/s, exact", or "unlimited".
func (s *Spec) String() string {
	if s == Unlimited {
		return unlimitedName
	}
	return s.Params.String()
}

// String returns the limit that the Params make, in its canonical form.
func (p *Params) String() string {
	b := make([]byte, 0, 48)
	if p.Name != "" {
		b = append(b, p.Name...)
		b = append(b, ": "...)
	}
	b = append(b, p.Algorithm.String()...)
	if p.Algorithm.Prepaid() { // it has no numbers
		return string(b)
	}
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(p.Capacity), 10)
	b = append(b, ", "...)
	b = p.appendPace(b)
	if p.Algorithm.Bans() {
		b = p.Ban.appendText(b)
	}
	if p.Algorithm.Shares() {
		b = p.appendFair(b)
	}
	if p.Debt != 0 {
		b = p.appendDebt(append(b, ", debt "...))
	}
	if p.Exact {
		b = append(b, ", "...)
		b = append(b, exactMark...)
	}
	return string(b)
}

// exactMark stands at the end of a limit that is Exact.
const exactMark = "exact"

// Label returns the given name, or one derived from the algorithm and the numbers, such as
// "leaky:10:1/s".
func (s *Spec) Label() string {
	switch {
	case s.Name == "":
		return s.derivedName()
	case s.Algorithm.Shares():
		return s.Name + "-share"
	}
	return s.Name
}

// stateName returns the StateName of a valid spec.
func (s *Spec) stateName() string {
	name := s.Algorithm.String() + "=" + s.Name
	if s.Name == "" {
		name = s.derivedName()
	}
	return s.appendTenant(name)
}

// derivedName returns the name of an unnamed limit: its canonical form
// with colons where that has spaces and commas, since neither can stand in a
// Token.
func (p *Params) derivedName() string {
	b := append([]byte(nil), p.Algorithm.String()...)
	if p.Algorithm.Prepaid() {
		return string(b)
	}
	if p.Algorithm.Shares() {
		b = append(append(b, ':'), p.fairTerms().Of.String()...)
	}
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(p.Capacity), 10)
	b = append(b, ':')
	start := len(b)
	b = p.appendPace(b)
	for i, c := range b[start:] {
		if c == ' ' || c == '@' {
			b[start+i] = ':'
		}
	}
	if p.Algorithm.Bans() {
		b = p.Ban.appendName(b)
	}
	if p.Debt != 0 {
		b = p.appendDebt(append(b, debtMark...))
	}
	return string(b)
}

func (p *Params) appendPace(b []byte) []byte {
	if p.Algorithm.Dated() {
		return appendPeriod(b, p.Calendar)
	}
	if p.Algorithm.Windowed() {
		return appendDuration(b, p.Period)
	}
	return AppendRate(b, p.Events, p.Period)
}

// AppendRate appends a rate in its canonical form: "10/s", "100/h", "5/2s".
func AppendRate(b []byte, events int, period time.Duration) []byte {
	b = strconv.AppendInt(b, int64(events), 10)
	b = append(b, '/')
	start := len(b)
	b = appendDuration(b, period)
	if unit := b[start+1:]; b[start] == '1' && len(unit) > 0 && isLetter(unit[0]) && !bytes.ContainsAny(unit, "0123456789") {
		b = append(b[:start], unit...) // 1/1s is written 1/s
	}
	return b
}

// appendDuration appends d as time.Duration prints it, with days, without
// trailing zero parts, and in ASCII: 1m, 36h, 365d, 1h30m, 250ms, 3us.
func appendDuration(b []byte, d time.Duration) []byte {
	if d > 0 && d%day == 0 {
		b = strconv.AppendInt(b, int64(d/day), 10)
		return append(b, 'd')
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return append(b, strings.Replace(s, "µs", "us", 1)...)
}

// Parse reads a limit in the form that [Spec.String] writes. White space around the comma may be left
// out and elsewhere doubled. The Params may make no sense; those of "unlimited" are those of
// [Unlimited].
func Parse(text string) (Params, error) {
	rest := strings.TrimSpace(text)
	name, named, found := strings.Cut(rest, ": ") // a name may contain a colon, but no space
	if found {
		rest = named
		if name == "" {
			return Params{}, errors.New("the name before the colon is empty")
		}
	} else {
		name = ""
	}
	switch strings.TrimSpace(rest) {
	case unlimitedName:
		return Unlimited.Params, nil
	case Balance.String():
		p := BalanceParams()
		p.Name = name
		return p, nil
	}
	numbers, pace, found := strings.Cut(rest, ",")
	fields := strings.Fields(numbers)
	if !found || len(fields) != 2 {
		return Params{}, fmt.Errorf("want an algorithm, a capacity, a comma and a rate or a window, as in %q or %q", "leaky 10, 1/s", "fixed-window 100, 1m")
	}
	algorithm, ok := AlgorithmNamed(fields[0])
	if algorithm.Prepaid() {
		return Params{}, fmt.Errorf("%s has no numbers: it has the units that it was topped up by", algorithm)
	}
	if !ok {
		return Params{}, fmt.Errorf("no algorithm is called %q: want one of %s", fields[0], algorithmNames())
	}
	capacity, err := parseNumber("capacity", fields[1])
	if err != nil {
		return Params{}, err
	}
	p, pace := Params{Algorithm: algorithm, Name: name, Capacity: capacity, Events: capacity}, strings.TrimSpace(pace)
	if last := strings.LastIndexByte(pace, ','); !algorithm.Shares() && last >= 0 && strings.TrimSpace(pace[last+1:]) == exactMark {
		p.Exact, pace = true, strings.TrimSpace(pace[:last])
	}
	if !algorithm.Shares() {
		if pace, err = p.parseDebt(pace); err != nil {
			return Params{}, err
		}
	}
	switch {
	case algorithm.Dated():
		err = p.parsePeriod(pace)
	case algorithm.Shares():
		err = p.parseFair(pace)
	case !algorithm.Windowed():
		p.Events, p.Period, err = parseRate(pace)
	case strings.Contains(pace, "/"):
		err = fmt.Errorf("%s takes the length of its window, such as 1m, and not a rate such as %q", algorithm, pace)
	case algorithm.Bans():
		p.Period, p.Ban, err = parseBan(pace)
	default:
		p.Period, err = parseDuration(pace)
	}
	if err != nil {
		return Params{}, err
	}
	return p, nil
}

// Trial returns the text of a limit of the algorithm that admits one event in a minute, or in an hour of a calendar, and forgets it
// soon after that.
func (a Algorithm) Trial() string {
	pace := "1m"
	switch {
	case a.Prepaid():
		return a.String()
	case a.Dated():
		pace = "every 1h"
	case a.Bans():
		pace = "1m, first 1m, factor 1, longest 1m, forget 1ms"
	case a.Shares():
		pace = "1/m, of leaky, tenant trial, weight 1"
	case !a.Windowed():
		pace = "1/m"
	}
	return a.String() + " 1, " + pace
}

// parseNumber reads a whole number. Errors name it.
func parseNumber(what, text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s %s is not from 1 to %d", what, text, min(math.MaxInt, most))
	case err != nil:
		return 0, fmt.Errorf("%s %q is not a whole number", what, text)
	}
	return n, nil
}

// fullUnits are the periods of a rate that may be written in full.
var fullUnits = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day}

func parseRate(text string) (events int, d time.Duration, err error) {
	number, period, found := strings.Cut(text, "/")
	number, period = strings.TrimSpace(number), strings.TrimSpace(period)
	if !found || number == "" {
		return 0, 0, fmt.Errorf("rate %q is not a whole number per period, as in %q or %q", text, "10/s", "5/2s")
	}
	events, err = parseNumber("rate", number)
	if err != nil {
		return 0, 0, err
	}
	d, inFull := fullUnits[period]
	if !inFull {
		d, err = parseDuration(period)
	}
	if err != nil && period != "" && isLetter(period[0]) { // s is short for 1s
		if one, failure := parseDuration("1" + period); failure == nil {
			d, err = one, nil
		}
	}
	if err != nil {
		return 0, 0, err
	}
	return events, d, nil
}

func parseDuration(text string) (time.Duration, error) {
	if number, found := strings.CutSuffix(text, "d"); found {
		days, err := strconv.ParseInt(number, 10, 32)
		if err != nil || time.Duration(days) > Longest/day {
			return 0, fmt.Errorf("period %q is not a whole number of days up to %d", text, Longest/day)
		}
		return time.Duration(days) * day, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("period %q is not a duration such as 1s, 250ms, 1h30m or 7d, up to %dd", text, Longest/day)
	}
	return d, nil
}

// ParseDerivedName reads the name that an unnamed limit has, such as "leaky:10:1/s": see [Spec.Label]. It reports
// whether the name is one, of a limit that makes sense.
func ParseDerivedName(name string) (Params, bool) {
	if name == Balance.String() {
		return BalanceParams(), true
	}
	parts := strings.SplitN(name, ":", 3)
	if len(parts) < 3 {
		return Params{}, false
	}
	algorithm, ok := AlgorithmNamed(parts[0])
	if !ok {
		return Params{}, false
	}
	start, end := parts[0]+" "+parts[1]+", ", ""
	if pace, debt, owes := strings.Cut(parts[2], debtMark); owes {
		parts[2], end = pace, ", debt "+debt
	}
	candidates := []string{parts[2]}
	switch {
	case algorithm.Dated():
		candidates = withoutColons(parts[2])
	case algorithm.Bans():
		candidates = []string{banText(parts[2])}
	}
	for _, pace := range candidates {
		p, err := Parse(start + pace + end)
		if err == nil && p.derivedName() == name && NewSpec(p, nil).Problem() == nil {
			return p, true
		}
	}
	return Params{}, false
}

// withoutColons returns every text of which a name with these colons can have been derived: each was a space, an at
// sign or a colon. No period has more than six.
func withoutColons(pace string) []string {
	const most = 6
	parts := strings.Split(pace, ":")
	if len(parts) > most+1 {
		return nil
	}
	texts := parts[:1:1]
	for _, part := range parts[1:] {
		longer := make([]string, 0, 3*len(texts))
		for _, text := range texts {
			longer = append(longer, text+" "+part, text+"@"+part, text+":"+part)
		}
		texts = longer
	}
	return texts
}

// banText returns the text of which the terms of a ban, "10m:10m*2:7d:1d", were derived.
func banText(terms string) string {
	parts := strings.Split(strings.Replace(terms, "*", ":", 1), ":")
	for i, word := range [...]string{"", "first ", "factor ", "longest ", "forget "} {
		if i < len(parts) {
			parts[i] = word + parts[i]
		}
	}
	return strings.Join(parts, ", ")
}
