package keyfuncs_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestHost(t *testing.T) {
	for _, test := range []struct{ host, want string }{
		{"example.com", "host:example.com"},
		{"EXAMPLE.com:8080", "host:example.com"},
		{"example.com.", "host:example.com"},
		{"example.com.:443", "host:example.com"},
		{"example.com:", "host:example.com"},
		{"203.0.113.9:80", "host:203.0.113.9"},
		{"[2001:DB8::1]:80", "host:[2001:db8::1]"},
		{"[2001:db8::1]", "host:[2001:db8::1]"},
		{"2001:db8::1", "host:2001:db8::1"},
		{"[example.com]:80", "host:example.com"},
		{"[Example.com.]", "host:example.com"},
		{"[", "host:["},
		{"a|b", "host:a%7Cb"},
	} {
		r := request("203.0.113.9:1")
		r.Host = test.host
		expectKey(t, keyfuncs.Host, r, test.want)
	}
	for _, host := range []string{"", ":80", "."} {
		r := request("203.0.113.9:1")
		r.Host = host
		if _, err := keyfuncs.Host(r); !errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("host %q: error %v, want ErrNoKey", host, err)
		}
	}
}

func TestMethod(t *testing.T) {
	for _, test := range []struct{ method, want string }{
		{"GET", "method:GET"},
		{"HEAD", "method:GET"},
		{"", "method:GET"},
		{"POST", "method:POST"},
		{"PUT", "method:PUT"},
		{"PATCH", "method:PATCH"},
		{"DELETE", "method:DELETE"},
		{"OPTIONS", "method:OPTIONS"},
		{"CONNECT", "method:CONNECT"},
		{"TRACE", "method:TRACE"},
		{"get", "method:(other)"},
		{"INVENTED1", "method:(other)"},
		{"INVENTED2", "method:(other)"},
	} {
		r := request("203.0.113.9:1")
		r.Method = test.method
		expectKey(t, keyfuncs.Method, r, test.want)
	}
}

func TestGlobal(t *testing.T) {
	expectKey(t, keyfuncs.Global, request("203.0.113.9:1"), "global")
	expectKey(t, keyfuncs.Global, request("@"), "global")
}

func TestUser(t *testing.T) {
	as := func(id string) keyfuncs.Func { return keyfuncs.User(func(*http.Request) string { return id }) }
	r := request("203.0.113.9:1")
	expectKey(t, as("42"), r, "user:42")
	expectKey(t, as("203.0.113.9"), r, "user:203.0.113.9")
	expectKey(t, as("ip:203.0.113.9"), r, "user:ip:203.0.113.9")
	expectKey(t, as(`a|ip:1\%7C`), r, "user:a%7Cip:1%5C%257C")
	if got, err := as("")(r); !errors.Is(err, keyfuncs.ErrNoKey) || got != "" {
		t.Errorf("key %q, error %v, want ErrNoKey", got, err)
	}
	expectPanic(t, func() { keyfuncs.User[string](nil) }, "User")
}
