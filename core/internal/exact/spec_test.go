package exact

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/calendar"
)

func TestShadows(t *testing.T) {
	s := NewSpec(Params{Algorithm: GCRA, Capacity: 7, Events: 3, Period: time.Hour}, nil)
	shadow := s.Shadow()
	switch {
	case s.IsShadow() || !shadow.IsShadow():
		t.Error("a spec is its shadow")
	case shadow.Shadow() != shadow || s.Shadow() != shadow:
		t.Error("a spec has several shadows")
	case shadow.Identity() != shadow || s.Identity() != s:
		t.Error("the identity of an unnamed spec is another one")
	case shadow.Units != s.Units || shadow.Params != s.Params || shadow.Problem() != nil:
		t.Errorf("%+v has the shadow %+v", s.Units, shadow.Units)
	}
}

// The shadows of limits that share their states share theirs.
func TestShadowsOfNamedLimits(t *testing.T) {
	params := Params{Algorithm: GCRA, Name: "plan", Capacity: 7, Events: 3, Period: time.Hour}
	identity := NewSpec(params.Identity(), nil)
	s := NewSpec(params, identity)
	params.Capacity = 8
	other := NewSpec(params, identity)
	if s.Identity() != other.Identity() || s.Shadow().Identity() != other.Shadow().Identity() {
		t.Error("two numbers of a named limit share no states")
	}
	if s.Shadow().Identity() == s.Identity() {
		t.Error("a shadow shares the states of its limit")
	}
}

func TestAlgorithmsHaveNames(t *testing.T) {
	for a := range All() {
		if found, ok := AlgorithmNamed(a.String()); !ok || found != a {
			t.Errorf("%d is called %q, which is the name of %d", a, a, found)
		}
		if table[a].observed < 1 || a.Next() == "" {
			t.Errorf("the table says of %s that it observes %d numbers, and %q comes next", a, table[a].observed, a.Next())
		}
	}
	if a, ok := AlgorithmNamed(""); ok {
		t.Errorf("%d has no name", a)
	}
}

// The error of a name shows the letter that is wrong, not a byte of it.
func TestWrongNamesShowTheLetter(t *testing.T) {
	for name, want := range map[string]string{"größe": `has 'ö' at byte 2`, "ä": `has 'ä' at byte 0`, "1": `has '1' at byte 0`, "a b": `has ' ' at byte 1`} {
		if err := checkName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// The specs that stand for another one, for its shadows and for a key whose windows begin later, name and count their states
// as that one does, except that the names of shadows have an end of their own.
func TestSpecsThatStandForAnotherHaveItsTraits(t *testing.T) {
	s := NewSpec(CalendarParams(10, calendar.Period{Unit: calendar.Step, Step: time.Hour, Jitter: time.Minute}), nil)
	if s.Problem() != nil || s.StateName == "" || !s.Counted {
		t.Fatalf("%+v, %v", s.Traits, s.Problem())
	}
	for name, other := range map[string]*Spec{"a key": s.For("user:42"), "shadows": s.Shadow(), "a key's shadows": s.Shadow().For("user:42")} {
		want := s.Traits
		if other.IsShadow() {
			want.StateName += ShadowSuffix
		}
		if other == s || other.Traits != want {
			t.Errorf("the spec for %s has %+v, want another spec with %+v", name, other.Traits, want)
		}
	}
}
