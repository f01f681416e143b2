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
// The function id returns the user that your authentication has verified: a [fmt.Stringer] such as a UUID, a string, an
// integer, or a type of yours that is a string or an integer. nil, a nil pointer and the empty string mean that no user
// has signed in, which gives [ErrNoKey]. A value of another type is an error, since its text might change from one request
// to the next.
//
// Never let id decode a token that has not been verified. The limiter must run after the authentication. Two spellings of
// one user are two users, so return a unique identifier, such as a number. User panics if id is nil.
//
// In a [Join], a request without a user is limited by the TCP peer. Behind a
// proxy, that is the proxy: say Or(User(id), IP(TrustedProxies(…))) there.
func User[ID any](id func(*http.Request) ID) Func {
	if id == nil {
		panic("keyfuncs: User: the function is nil")
	}
	text, isText := any(id).(func(*http.Request) string)
	isGiven := given.Is(id)
	return func(r *http.Request) (string, error) {
		if isGiven {
			given.Prepare(r)
		}
		var user string
		if isText {
			user = text(r)
		} else {
			var err error
			if user, err = identifier(id(r)); err != nil {
				return "", err
			}
		}
		if user == "" {
			return "", ErrNoKey
		}
		return "user:" + encode(user), nil
	}
}

// identifier returns the text of a value that names a user, or "" if it names none.
func identifier(value any) (string, error) {
	reflected := reflect.ValueOf(value)
	if !reflected.IsValid() || reflected.Kind() == reflect.Pointer && reflected.IsNil() {
		return "", nil
	}
	if text, ok := value.(fmt.Stringer); ok {
		return text.String(), nil
	}
	switch {
	case reflected.Kind() == reflect.String:
		return reflected.String(), nil
	case reflected.CanInt():
		return strconv.FormatInt(reflected.Int(), 10), nil
	case reflected.CanUint() && reflected.Kind() != reflect.Uintptr:
		return strconv.FormatUint(reflected.Uint(), 10), nil
	}
	return "", fmt.Errorf("keyfuncs: User: %T is not a string, an integer or a fmt.Stringer", value)
}
