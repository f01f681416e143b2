package keyfuncs

import "net/http"

// User names the requests of a user: "user:42".
//
// The function id returns who has signed in, as your authentication has verified
// it, or "" for nobody, which gives [ErrNoKey]. Never let it decode a token that
// has not been verified. The limiter must run after the authentication. Two
// spellings of one user are two users, so return what is unique, such as a
// number. User panics if id is nil.
//
// In a [Join], a request without a user is limited by the TCP peer. Behind a
// proxy, that is the proxy: say FirstOf(User(id), IP(TrustedProxies(…))) there.
func User(id func(*http.Request) string) Func {
	if id == nil {
		panic("keyfuncs: User: the function is nil")
	}
	return func(r *http.Request) (string, error) {
		user := id(r)
		if user == "" {
			return "", ErrNoKey
		}
		return "user:" + encode(user), nil
	}
}
