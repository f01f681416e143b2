package keyfuncs

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/weir-go/ratelimit/internal/given"
)

// User names the requests of a user: "user:42".
//
// The function id returns the user that your authentication has verified, or "" if no
// user has signed in, which gives [ErrNoKey]. Never let it decode a token that has not
// been verified. The limiter must run after the authentication. Two spellings of one
// user are two users, so return a unique identifier, such as a number. User panics if
// id is nil.
//
// In a [Join], a request without a user is limited by the TCP peer. Behind a
// proxy, that is the proxy: say FirstOf(User(id), IP(TrustedProxies(…))) there.
func User(id func(*http.Request) string) Func {
	if id == nil {
		panic("keyfuncs: User: the function is nil")
	}
	return func(r *http.Request) (string, error) {
		given.Prepare(r)
		return userKey(id(r))
	}
}

// UserValue is [User] for an identifier that is kept as a value of some type, as
// the frameworks' contexts do: a [fmt.Stringer] such as a UUID, a string, an integer, or
// a type of yours that is a string or an integer. nil, a nil pointer and the empty
// string give [ErrNoKey]. A value of another type is an error, since its text might change
// from one request to the next. It panics if value is nil.
func UserValue(value func(*http.Request) any) Func {
	if value == nil {
		panic("keyfuncs: UserValue: the function is nil")
	}
	isGiven := given.Is(value)
	return func(r *http.Request) (string, error) {
		if isGiven {
			given.Prepare(r)
		}
		v := value(r)
		reflected := reflect.ValueOf(v)
		if !reflected.IsValid() || reflected.Kind() == reflect.Pointer && reflected.IsNil() {
			return "", ErrNoKey
		}
		if text, ok := v.(fmt.Stringer); ok {
			return userKey(text.String())
		}
		switch {
		case reflected.Kind() == reflect.String:
			return userKey(reflected.String())
		case reflected.CanInt():
			return userKey(strconv.FormatInt(reflected.Int(), 10))
		case reflected.CanUint() && reflected.Kind() != reflect.Uintptr:
			return userKey(strconv.FormatUint(reflected.Uint(), 10))
		}
		return "", fmt.Errorf("keyfuncs: UserValue: %T is not a string, an integer or a fmt.Stringer", v)
	}
}

func userKey(user string) (string, error) {
	if user == "" {
		return "", ErrNoKey
	}
	return "user:" + encode(user), nil
}
