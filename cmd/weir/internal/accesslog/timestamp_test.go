package accesslog

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// slowly reads a timestamp by package time alone.
func slowly(text string) (instant int64, whole bool, err error) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			fraction := len(text) > 19 && (text[19] == '.' || text[19] == ',')
			return inRange(at, !fraction)
		}
	}
	return 0, false, errTimestamp
}

// A timestamp that is read fast is the one that package time reads, and each that is wrong stays wrong.
func TestFastTimestampsAreThoseOfPackageTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		two := func(most int) string { return fmt.Sprintf("%02d", rapid.IntRange(0, most).Draw(t, "number")) }
		one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "part") }
		text := one("1969", "1970", "2000", "2024", "2026", "2100", "9999", "202x") + one("-", "-", "-", "/") + two(13) + "-" + two(32) +
			one("T", "T", " ", "t") + two(24) + ":" + two(60) + ":" + two(60) +
			one("", "", ".5", ",25", ".123456", ".1234567", ".123456789", ".1234567890", ".", ".x") +
			one("Z", "z", "+00:00", "-07:00", "+05:45", "+23:59", "+24:00", "+0200", "-00:60", "*01:00", "+01:00 ", "")
		sameTimestamp(t, text)
	})
}

func FuzzFastTimestamps(f *testing.F) {
	for _, text := range []string{"2026-10-10T13:55:36.123+02:00", "2024-02-30T23:59:59Z", "2026-12-31 23:59:59,000001Z", "2026-03-02T10:00:00+0000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { sameTimestamp(t, text) })
}

func sameTimestamp(t interface {
	Fatalf(format string, args ...any)
}, text string,
) {
	instant, whole, ok := rfc3339([]byte(text))
	if !ok {
		return // stamp asks package time then
	}
	slow, slowWhole, err := slowly(text)
	if err != nil || slow != instant || slowWhole != whole {
		t.Fatalf("%q: %d, whole %v; package time reads %d, whole %v, %v", text, instant, whole, slow, slowWhole, err)
	}
}

// The usual forms are read fast.
func TestUsualTimestampsAreReadFast(t *testing.T) {
	for _, text := range []string{"2026-10-10T13:55:36+02:00", "2026-10-31T13:55:36.5Z", "2024-02-29T00:00:00.123456789-11:30", "2026-12-31 23:59:59Z"} {
		if _, _, ok := rfc3339([]byte(text)); !ok {
			t.Errorf("%q is read by package time", text)
		}
	}
}
