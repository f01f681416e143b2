package keyfuncs_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/keyfuncs"
)

type identifier struct{ text string }

func (i *identifier) String() string { return i.text }

// account, login and weekday are identifiers of types of their own.
type (
	account uint32
	login   string
	weekday time.Weekday // which is no fmt.Stringer
)

func TestUserIsTheTextOfAnIdentifier(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string // "" for ErrNoKey
	}{
		{"ada", "user:ada"},
		{"a|b", "user:a%7Cb"},
		{42, "user:42"},
		{int64(-42), "user:-42"},
		{uint64(42), "user:42"},
		{account(42), "user:42"},
		{login("ada"), "user:ada"},
		{login(""), ""},
		{weekday(time.Friday), "user:5"},
		{time.Friday, "user:Friday"},
		{&identifier{"7f"}, "user:7f"},
		{&identifier{}, ""},
		{(*identifier)(nil), ""},
		{"", ""},
		{nil, ""},
	} {
		got, err := keyfuncs.User(func(*http.Request) any { return test.value })(request("203.0.113.9:1"))
		if got != test.want || (test.want == "") != errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("%#v is %q, %v, want %q", test.value, got, err, test.want)
		}
	}
}

// The text of a pointer or a struct may be another in every request, which would
// be a new limit each time.
func TestUserOfAnotherTypeIsAnError(t *testing.T) {
	for _, value := range []any{identifier{"7f"}, 4.2, uintptr(42), true, []string{"ada"}, struct{}{}} {
		key, err := keyfuncs.User(func(*http.Request) any { return value })(request("203.0.113.9:1"))
		if err == nil || errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("%#v is %q, %v, want an error", value, key, err)
		}
	}
}
