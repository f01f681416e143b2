package core

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// String returns the limit in its canonical form, which [ParseLimit] reads back:
//
//	leaky 10, 1/s
//	token-bucket 100, 5/2s
//	sliding-window 1000, 1h
//	login: fixed-window 5, 15m
//
//	unlimited
//
// The number after the algorithm is the capacity, then comes the rate of a
// bucket or the length of a window. A given name stands in front.
func (l Limit) String() string {
	if l == Unlimited {
		return unlimitedName
	}
	return l.known().String()
}

func (d *definition) String() string {
	b := make([]byte, 0, 48)
	if d.name != "" {
		b = append(b, d.name...)
		b = append(b, ": "...)
	}
	b = append(b, d.algorithm.String()...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(d.capacity), 10)
	b = append(b, ", "...)
	return string(d.appendPace(b))
}

// appendDerivedName appends the name of an unnamed limit: its canonical form
// with colons where that has spaces and commas, since neither can stand in a
// Token.
func (d *definition) appendDerivedName(b []byte) []byte {
	b = append(b, d.algorithm.String()...)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(d.capacity), 10)
	b = append(b, ':')
	return d.appendPace(b)
}

func (d *definition) appendPace(b []byte) []byte {
	if d.algorithm.windowed() {
		return appendDuration(b, d.rate.Period)
	}
	return d.rate.append(b)
}

func (r Rate) append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(r.Events), 10)
	b = append(b, '/')
	start := len(b)
	b = appendDuration(b, r.Period)
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

// ParseLimit reads a limit in the form that [Limit.String] writes. White space
// around the comma may be left out and elsewhere doubled, and durations may have any form
// that [time.ParseDuration] takes, or a whole number of days ("7d"). A rate may also be per
// "second", "minute", "hour" or "day". The limit is validated.
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(text)
	if err != nil {
		return Limit{}, fmt.Errorf("core: limit %q: %w", text, err)
	}
	if err := l.Validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

func parseLimit(text string) (Limit, error) {
	rest := strings.TrimSpace(text)
	name, named, found := strings.Cut(rest, ": ") // a name may contain a colon, but no space
	if found {
		rest = named
		if name == "" {
			return Limit{}, errors.New("the name before the colon is empty")
		}
	} else {
		name = ""
	}
	if rest == unlimitedName {
		return Unlimited, nil
	}
	numbers, pace, found := strings.Cut(rest, ",")
	fields := strings.Fields(numbers)
	if !found || len(fields) != 2 {
		return Limit{}, fmt.Errorf("want an algorithm, a capacity, a comma and a rate or a window, as in %q or %q", "leaky 10, 1/s", "fixed-window 100, 1m")
	}
	a, ok := algorithmNamed(fields[0])
	if !ok {
		return Limit{}, fmt.Errorf("no algorithm is called %q: want one of %s", fields[0], algorithmNames())
	}
	capacity, err := parseNumber("capacity", fields[1])
	if err != nil {
		return Limit{}, err
	}
	rate, pace := Rate{Events: capacity}, strings.TrimSpace(pace)
	switch {
	case !a.windowed():
		rate, err = parseRate(pace)
	case strings.Contains(pace, "/"):
		err = fmt.Errorf("%s takes the length of its window, such as 1m, and not a rate such as %q", a, pace)
	default:
		rate.Period, err = parseDuration(pace)
	}
	if err != nil {
		return Limit{}, err
	}
	return newLimit(a, capacity, rate).Named(name), nil
}

// parseNumber reads a whole number. What it is called is for the error.
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

func parseRate(text string) (Rate, error) {
	number, period, found := strings.Cut(text, "/")
	number, period = strings.TrimSpace(number), strings.TrimSpace(period)
	if !found || number == "" {
		return Rate{}, fmt.Errorf("rate %q is not a whole number per period, as in %q or %q", text, "10/s", "5/2s")
	}
	events, err := parseNumber("rate", number)
	if err != nil {
		return Rate{}, err
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
		return Rate{}, err
	}
	return Rate{Events: events, Period: d}, nil
}

func parseDuration(text string) (time.Duration, error) {
	if number, found := strings.CutSuffix(text, "d"); found {
		days, err := strconv.ParseInt(number, 10, 32)
		if err != nil || time.Duration(days) > longest/day {
			return 0, fmt.Errorf("period %q is not a whole number of days up to %d", text, longest/day)
		}
		return time.Duration(days) * day, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("period %q is not a duration such as 1s, 250ms, 1h30m or 7d, up to %dd", text, longest/day)
	}
	return d, nil
}

// MarshalText implements [encoding.TextMarshaler] with the canonical form. A
// limit that is not valid is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseLimit]. On an
// error the limit is left as it was.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
