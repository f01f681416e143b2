package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

const second = 1_000_000 // in microseconds

var errTimestamp = errors.New("no timestamp such as 10/Oct/2026:13:55:36 +0200")

// bracketed reads the timestamp of Apache and nginx, "10/Oct/2026:13:55:36 -0700", which always names its offset from UTC, so that it
// means one instant even where clocks are put back. It returns microseconds since 1970.
func bracketed(text []byte) (int64, error) {
	if len(text) != 26 || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return 0, errTimestamp
	}
	day, ok1 := number(text[0:2])
	month := monthOf(text[3], text[4], text[5])
	year, ok2 := number(text[7:11])
	hour, ok3 := number(text[12:14])
	minute, ok4 := number(text[15:17])
	seconds, ok5 := number(text[18:20])
	zoneHour, ok6 := number(text[22:24])
	zoneMinute, ok7 := number(text[24:26])
	sign := int64(1)
	switch text[21] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, errTimestamp
	}
	digits := ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7
	if !digits || month == 0 || day < 1 || day > 31 || hour > 23 || minute > 59 || seconds > 60 ||
		zoneHour > 23 || zoneMinute > 59 || year < 1970 {
		return 0, errTimestamp
	}
	clock := hour*3600 + minute*60 + seconds - sign*(zoneHour*3600+zoneMinute*60)
	return (daysSince1970(year, month, day)*86400 + clock) * second, nil
}

// number reads a few digits.
func number(digits []byte) (n int64, ok bool) {
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, len(digits) > 0
}

// monthOf returns the number of a month, given its English short name, or 0.
func monthOf(a, b, c byte) int64 {
	i := bytes.Index([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), []byte{a, b, c})
	if i < 0 || i%3 != 0 {
		return 0
	}
	return int64(i/3) + 1
}

// daysSince1970 counts the days of the Gregorian calendar: the algorithm "days_from_civil" of Howard Hinnant, for years from 1970 on.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// layouts are the forms of timestamps in JSON lines and of load balancers. Go reads a fraction of a second after each of them.
var layouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700"}

// zoneless are the layouts without a zone.
var zoneless = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05"}

// stamp reads a timestamp in text: microseconds since 1970, and whether it gives whole seconds only.
func stamp(text []byte, zone *time.Location) (instant int64, whole bool, err error) {
	if len(text) == 26 && text[2] == '/' {
		instant, err = bracketed(text)
		return instant, true, err
	}
	if instant, whole, ok := rfc3339(text); ok {
		return instant, whole, nil
	}
	if instant, whole, ok := epoch(text); ok {
		return instant, whole, nil
	}
	whole = bytes.IndexByte(text, '.') < 0 && bytes.IndexByte(text, ',') < 0
	s := string(text)
	for _, layout := range layouts {
		if at, err := time.Parse(layout, s); err == nil {
			return inRange(at, whole)
		}
	}
	for _, layout := range zoneless {
		if at, err := time.ParseInLocation(layout, s, zone); err == nil {
			return inRange(at, whole)
		}
	}
	return 0, false, fmt.Errorf("timestamp %q is in no known form", clip(text))
}

// rfc3339 reads the usual forms of a timestamp with a zone, "2026-10-10T13:55:36.123+02:00" and the like, as package time does and several times
// faster. It reports false of all others, and of each timestamp that may be wrong.
func rfc3339(text []byte) (instant int64, whole, ok bool) {
	if len(text) < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' && text[10] != ' ' || text[13] != ':' || text[16] != ':' {
		return 0, false, false
	}
	year, ok1 := number(text[0:4])
	month, ok2 := number(text[5:7])
	day, ok3 := number(text[8:10])
	hour, ok4 := number(text[11:13])
	minute, ok5 := number(text[14:16])
	seconds, ok6 := number(text[17:19])
	const sure = 28 // every month has this day
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || year < 1970 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || seconds > 59 ||
		day > sure && day > daysSince1970(year+month/12, month%12+1, 1)-daysSince1970(year, month, 1) {
		return 0, false, false
	}
	micros, zone, whole, ok := fraction(text[19:])
	if !ok {
		return 0, false, false
	}
	offset, ok := offsetOf(zone)
	if !ok {
		return 0, false, false
	}
	clock := hour*3600 + minute*60 + seconds - offset
	return (daysSince1970(year, month, day)*86400+clock)*second + micros, whole, true
}

// fraction reads the fraction of a second that a text may begin with, in microseconds, and returns the rest.
func fraction(text []byte) (micros int64, rest []byte, whole, ok bool) {
	if text[0] != '.' && text[0] != ',' {
		return 0, text, true, true
	}
	digits := 0
	for rest = text[1:]; len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9'; rest = rest[1:] {
		if digits++; digits <= 6 {
			micros = micros*10 + int64(rest[0]-'0')
		}
	}
	for more := digits; more < 6; more++ {
		micros *= 10
	}
	return micros, rest, false, 0 < digits && digits <= 9
}

// offsetOf reads an offset from UTC, "Z" or "+02:00", in seconds.
func offsetOf(zone []byte) (offset int64, ok bool) {
	if len(zone) == 1 && zone[0] == 'Z' {
		return 0, true
	}
	if len(zone) != 6 || zone[3] != ':' {
		return 0, false
	}
	hours, ok1 := number(zone[1:3])
	minutes, ok2 := number(zone[4:6])
	offset = hours*3600 + minutes*60
	if zone[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2 && hours <= 23 && minutes <= 59 && (zone[0] == '+' || zone[0] == '-')
}

func inRange(at time.Time, whole bool) (int64, bool, error) {
	if at.Year() < 1970 || at.Year() > 9999 {
		return 0, false, fmt.Errorf("timestamp of the year %d", at.Year())
	}
	return at.UnixMicro(), whole, nil
}

// epoch reads a number since 1970: of seconds, or of milli-, micro- or nanoseconds if it has as many digits as these have today.
func epoch(text []byte) (instant int64, whole, ok bool) {
	digits, fraction, broken := bytes.Cut(text, []byte("."))
	n, ok := number(digits)
	if !ok {
		return 0, false, false
	}
	switch length := len(digits); {
	case length == 19 && n > 0:
		return n / 1000, false, true
	case length == 16:
		return n, false, true
	case length == 13:
		return n * 1000, false, true
	case length < 9 || length > 11:
		return 0, false, false
	}
	fraction = fraction[:min(len(fraction), 6)]
	micros, ok := number(fraction)
	for range 6 - len(fraction) {
		micros *= 10
	}
	return n*second + micros, !broken, ok || !broken
}

// clip returns the part of a line that a message quotes.
func clip(text []byte) []byte {
	const most = 120
	if len(text) > most {
		return text[:most]
	}
	return text
}
