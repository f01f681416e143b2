package exact

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDerivedNamesAreReadBack(t *testing.T) {
	for _, text := range []string{
		"leaky 10, 1/s", "leaky 10, 5/2s", "gcra 7, 700000/s", "shaping 3, 1/1h30m", "token-bucket 100, 20/m",
		"fixed-window 5, 15m", "sliding-window 1000, 30d", "sliding-log 5, 250ms", "concurrent 20, 30s",
		"ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d", "ban 1, 3us, first 1ms, factor 1, longest 1ms, forget 0s, extend",
		"calendar 5, every 1h", "calendar 5, day UTC", "calendar 5, day Europe/Berlin jitter 5m", "calendar 5, week@monday America/Argentina/Salta",
		"calendar 5, month@31T23:59:59.5 Europe/Berlin", "calendar 5, month@1T08:30 UTC jitter 1h", "calendar 5, year@04-06 Europe/London",
		"leaky 10, 1/s, debt 50", "token-bucket 100, 20/m, debt 1", "gcra 7, 700000/s, debt unlimited",
		"fixed-window 5, 15m, debt unlimited", "calendar 5, day UTC, debt 5", "calendar 5, month@31T23:59:59.5 Europe/Berlin jitter 1h, debt 1",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		name := p.derivedName()
		if got, ok := ParseDerivedName(name); !ok || got != p {
			t.Errorf("%s is read as %v, %v, and is of %s", name, got.String(), ok, text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		s.Name = ""
		if got, ok := ParseDerivedName(s.Label()); !ok || got.String() != s.String() {
			t.Fatalf("%s is read as %v, %v, and is of %s", s.Label(), got.String(), ok, s)
		}
	})
}

func TestOtherNamesAreNotDerived(t *testing.T) {
	for _, name := range []string{
		"", "plan", "leaky", "leaky:10", "leaky:10:", "leaky:x:1/s", "leaky:10:1/s:", "leaky:010:1/s", "leaky:10:1/1s", "brook:10:1/s",
		"leaky:10:1/s, x", "fixed-window:5:1/s", "calendar:5:day", "calendar:5:a:b:c:d:e:f:g:h:i", "ban:5:10m", "ban:5:10m:10m*2:7d:1d:never",
		"leaky:10:1/s:debt:", "leaky:10:1/s:debt:0", "leaky:10:1/s:debt:07", "leaky:10:1/s:debt:-1", "sliding-window:5:15m:debt:5", "leaky:10:1/s:debt:5:debt:6",
	} {
		if p, ok := ParseDerivedName(name); ok {
			t.Errorf("%q is read as %s", name, p.String())
		}
	}
}

func FuzzParseDerivedName(f *testing.F) {
	for _, name := range []string{"leaky:10:1/s", "leaky:10:1/s:debt:5", "calendar:5:month:1T08:30:UTC:jitter:1h", "ban:5:10m:10m*2:7d:1d:extend"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if p, ok := ParseDerivedName(name); ok && p.derivedName() != name {
			t.Errorf("%q is read as %s, which has another name", name, p.String())
		}
	})
}
