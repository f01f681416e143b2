package exact

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/calendar"
)

// What is written of a record is read back, whatever has become of it.
func TestARecordIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		var kept, copied Record
		now := int64(1_800_000_000_000_000)
		var charges []Charge
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Int64Range(1, s.Period.Microseconds()*2/int64(s.Events)+1).Draw(t, "later")
			cost := rapid.IntRange(1, s.Capacity).Draw(t, "cost")
			at := Charge{}
			if len(charges) > 0 && rapid.Bool().Draw(t, "known") {
				at = rapid.SampledFrom(charges).Draw(t, "charge")
			}
			for _, r := range []*Record{&kept, &copied} {
				switch u, _ := s.Observe(&r.State, now, cost); {
				case at.At != 0:
					r.Settle(s, &Correction{Events: -cost, At: at}, now)
				case s.Fits(u, cost):
					s.Store(&r.State, u, now, cost, Holder{})
					charge := Charge{At: now, Used: u.Used + s.Weigh(cost), Order: r.Order()}
					if s.Algorithm.Noted() && now%3 > 0 {
						charge.Order = r.Number(now)
						r.State.Note(s, u.Used, now, charge.Order)
					}
					if r == &kept {
						charges = append(charges, charge)
					}
				default:
					r.Reset(s, now)
				}
			}
			text := copied.Append(nil)
			read, err := ReadRecord(text, s)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			copied = read
			mine, _ := s.Observe(&kept.State, now, cost)
			other, _ := s.Observe(&copied.State, now, cost)
			if mine != other || kept.Order() != copied.Order() || kept.Until(now) != copied.Until(now) {
				t.Fatalf("%s is read as %+v, want %+v", text, copied, kept)
			}
		}
	})
}

// Whatever a row holds, it is a record or an error, and a record can be observed and corrected.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte(`{"limit":"leaky 10, 1/s","at":1800000000000000,"level":3000000}`), 0)
	f.Add([]byte(`{"limit":"leaky 10, 1/s","at":1800000000000000,"level":9000000,"notes":{"weight":1000000,"low":8000000,"since":1,"slots":[[1,4000000],[3,4000000]]}}`), 0)
	f.Add([]byte(`{"limit":"sliding-log 10, 1s","log":[1800000000000000]}`), 6)
	f.Add([]byte(`{"past":{"at":1,"order":1,"until":2}}`), 4)
	f.Add([]byte(`{"limit":"a: fixed-window 9, 1s","at":1799999999999999,"level":9007199254740991}`), 4)
	f.Fuzz(func(_ *testing.T, text []byte, algorithm int) {
		p := Params{Algorithm: Algorithm(1 + uint(algorithm)%uint(Count)), Name: "a", Capacity: 10, Events: 10, Period: time.Second}
		for _, name := range []string{"", "a"} {
			var identity *Spec
			if p.Name = name; name != "" {
				identity = NewSpec(p.Identity(), nil)
			}
			s := NewSpec(p, identity)
			r, err := ReadRecord(text, s)
			if err != nil {
				continue
			}
			const now = 1_800_000_000_000_000
			u, _ := s.Observe(&r.State, now, 1)
			if s.Fits(u, 1) {
				s.Store(&r.State, u, now, 1, Holder{})
			}
			r.Settle(s, &Correction{Events: -1, At: Charge{At: now - 1, Used: 1}}, now+1)
			r.Until(now + 1)
			_, _ = ReadRecord(r.Append(nil), s)
		}
	})
}

// A window that is longer than any calendar cuts is no record.
func TestARecordOfAnEndlessWindow(t *testing.T) {
	s := NewSpec(CalendarParams(10, calendar.Period{Unit: calendar.Year, Zone: "UTC", Month: time.January, Day: 1}), nil)
	const year = 365 * 86_400_000_000
	for length, damaged := range map[int64]bool{year: false, 100 * year: true} {
		text := fmt.Sprintf(`{"limit":%q,"at":1767225600000000,"level":10,"previous":%d}`, s.recorded(), 1767225600000000+length)
		if _, err := ReadRecord([]byte(text), s); (err != nil) != damaged {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A record tells what a window pays of a debt, also where the limit has another capacity or debt by now.
func TestARecordTellsWhoseDebtItHas(t *testing.T) {
	parse := func(text string) *Spec {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Name = "plan"
		s := NewSpec(p, nil)
		if err := s.Problem(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	now := time.Date(2027, 11, 26, 12, 0, 0, 0, time.UTC).UnixMicro()
	for _, former := range []string{"calendar 666, day UTC", "calendar 100, day UTC, debt 100", "fixed-window 666, 1h", "fixed-window 100, 1h, debt 600"} {
		for _, version := range []string{"calendar 100, day UTC, debt 50", "calendar 50, day UTC, debt 50", "fixed-window 100, 1h, debt 50", "fixed-window 50, 1h, debt 50"} {
			writer, reader := parse(former), parse(version)
			if writer.Algorithm != reader.Algorithm {
				continue
			}
			var kept Record
			kept.Settle(writer, &Correction{Events: 561}, now)
			read, err := ReadRecord(kept.Append(nil), reader)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := reader.Observe(&kept.State, now, 1)
			if got, _ := reader.Observe(&read.State, now, 1); got != want {
				t.Errorf("%s is read under %s as %+v, want %+v", former, version, got, want)
			}
		}
	}
}
