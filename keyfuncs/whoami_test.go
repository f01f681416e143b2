package keyfuncs_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// whoAmI returns the answer of WhoAmI to a request.
func whoAmI(by keyfuncs.Func, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	keyfuncs.WhoAmI(by).ServeHTTP(w, r)
	return w
}

func TestWhoAmIShowsTheKeyAndWhatWasThereToRead(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/whoami", nil)
	r.RemoteAddr = "10.0.0.5:41234"
	r.Header["X-Forwarded-For"] = []string{"192.0.2.1", "203.0.113.9"}
	r.Header.Set("CF-Connecting-IP", "192.0.2.2")
	r.Header.Set("Cookie", "session=secret")
	w := whoAmI(keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), r)
	const want = "key: ip:203.0.113.9\npeer: 10.0.0.5:41234\nX-Forwarded-For: 192.0.2.1\nX-Forwarded-For: 203.0.113.9\nCf-Connecting-Ip: 192.0.2.2\n"
	if got := w.Body.String(); got != want {
		t.Errorf("it shows\n%swant\n%s", got, want)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "text/plain; charset=utf-8"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestWhoAmIShowsWhyThereIsNoKey(t *testing.T) {
	fails := func(*http.Request) (string, error) { return "", errors.New("the directory does not answer") }
	w := whoAmI(fails, httptest.NewRequest(http.MethodGet, "/whoami", nil))
	if got, want := w.Body.String(), "error: the directory does not answer\npeer: 192.0.2.1:1234\n"; got != want {
		t.Errorf("it shows %q, want %q", got, want)
	}
}

func TestWhoAmIShowsWhatStandsInForAKey(t *testing.T) {
	w := whoAmI(keyfuncs.Header("X-API-Key"), httptest.NewRequest(http.MethodGet, "/whoami", nil))
	if got, want := w.Body.String(), "key: anonymous:192.0.2.1\npeer: 192.0.2.1:1234\n"; got != want {
		t.Errorf("it shows %q, want %q", got, want)
	}
}

func TestWhoAmIWantsAKeyFunction(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it does not panic without one")
		}
	}()
	keyfuncs.WhoAmI(nil)
}
