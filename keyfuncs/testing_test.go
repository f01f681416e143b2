package keyfuncs_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// request is a GET from a peer, with header lines as "Name: value".
func request(peer string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// key returns the key that f reads, which must not fail.
func key(t testing.TB, f keyfuncs.Func, r *http.Request) string {
	t.Helper()
	got, err := f(r)
	if err != nil {
		t.Fatalf("error %v, want a key", err)
	}
	return got
}

func expectKey(t testing.TB, f keyfuncs.Func, r *http.Request, want string) {
	t.Helper()
	if got := key(t, f, r); got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}

// expectPanic wants build to panic with the package's name and these words.
func expectPanic(t *testing.T, build func(), words ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		message, _ := recover().(string)
		for _, word := range append(words, "keyfuncs: ") {
			if !strings.Contains(message, word) {
				t.Errorf("panic %q, want it to say %q", message, word)
			}
		}
	}()
	build()
}

// constant is a Func that always gives the same answer.
func constant(key string, err error) keyfuncs.Func {
	return func(*http.Request) (string, error) { return key, err }
}
