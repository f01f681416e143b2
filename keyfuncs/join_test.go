package keyfuncs_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// joined is the key of a Join of parts with these keys.
func joined(t testing.TB, parts ...string) string {
	t.Helper()
	funcs := make([]keyfuncs.Func, len(parts))
	for i, part := range parts {
		funcs[i] = constant(part, nil)
	}
	return key(t, keyfuncs.Join(funcs...), request("203.0.113.9:1"))
}

func TestJoinIsReadable(t *testing.T) {
	r := request("203.0.113.9:1")
	r.Pattern = "GET /items/{id}"
	expectKey(t, keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route, keyfuncs.Method), r,
		"ip:203.0.113.9|route:/items/{id}|method:GET")
}

func TestPartsDoNotRunIntoEachOther(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a", "b"},
		{"a|b"},
		{`a\|b`},
		{`a\`, "b"},
		{"a", `\b`},
		{"a|", "b"},
		{"a", "|b"},
		{"ab"},
		{"b", "a"},
		{"a"},
		{"a", "b", "c"},
		{"a|b", "c"},
		{"a", "b|c"},
		{"a|b|c"},
		{`a\\|b`},
		{`a\\`, "b"},
		{`\`},
		{"|"},
		{`\|`},
		{"|", "|"},
	} {
		got := joined(t, parts...)
		if before, ok := seen[got]; ok {
			t.Errorf("parts %q and %q have the same key %q", parts, before, got)
		}
		seen[got] = parts
	}
}

func TestNestedJoinsStayApart(t *testing.T) {
	a, b, c := constant("a", nil), constant("b", nil), constant("c", nil)
	join := keyfuncs.Join
	r := request("203.0.113.9:1")
	seen := map[string]string{}
	for name, f := range map[string]keyfuncs.Func{
		"a b c":     join(a, b, c),
		"(a b) c":   join(join(a, b), c),
		"a (b c)":   join(a, join(b, c)),
		"(a b c)":   join(join(a, b, c)),
		"((a b) c)": join(join(join(a, b), c)),
		"(a (b c))": join(join(a, join(b, c))),
	} {
		got := key(t, f, r)
		if before, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same key %q", name, before, got)
		}
		seen[got] = name
	}
}

func TestAValueCannotImitateAJoin(t *testing.T) {
	r := request("203.0.113.9:1")
	r.Pattern = "/x"
	user := func(id string) keyfuncs.Func { return keyfuncs.User(func(*http.Request) string { return id }) }
	genuine := keyfuncs.Join(user("42"), keyfuncs.Route)
	for _, id := range []string{"42|route:/x", `42\|route:/x`, `42\\|route:/x`, "42%7Croute:/x"} {
		for _, pair := range [][2]keyfuncs.Func{
			{user(id), genuine},
			{keyfuncs.Join(user(id)), genuine},
			{keyfuncs.Join(user(id)), keyfuncs.Join(genuine)},
			{user(id), keyfuncs.Join(genuine)},
		} {
			if got := key(t, pair[0], r); got == key(t, pair[1], r) {
				t.Errorf("user %q has the key of a join, %q", id, got)
			}
		}
	}
}

func TestJoinLeavesTheKeysOfThisPackageAsTheyAre(t *testing.T) {
	r := request("[2001:db8::1]:1", "A: v", "Cookie: a|b=v")
	r.Pattern = `GET /a|b\c/{id}`
	r.Host = `a|b\c`
	r.SetPathValue("id", `a|b\c%`)
	for name, f := range map[string]keyfuncs.Func{
		"RemoteIP":  keyfuncs.RemoteIP,
		"Header":    keyfuncs.Header("A"),
		"Cookie":    keyfuncs.Cookie("a|b"),
		"PathValue": keyfuncs.PathValue("id"),
		"Host":      keyfuncs.Host,
		"Route":     keyfuncs.Route,
		"Method":    keyfuncs.Method,
		"Global":    keyfuncs.Global,
		"User":      keyfuncs.User(func(*http.Request) string { return `a|b\c%` }),
	} {
		t.Run(name, func(t *testing.T) { expectKey(t, keyfuncs.Join(f), r, key(t, f, r)) })
	}
}

func TestAMissingPartIsThePeerInANamespaceOfItsOwn(t *testing.T) {
	nobody := keyfuncs.User(func(*http.Request) string { return "" })
	for _, test := range []struct {
		name string
		f    keyfuncs.Func
		peer string
		want string
	}{
		{"only the missing part", keyfuncs.Join(nobody, keyfuncs.Method), "203.0.113.9:1", "anonymous:203.0.113.9|method:GET"},
		{"a mapped peer", keyfuncs.Join(nobody, keyfuncs.Method), "[::ffff:203.0.113.9]:1", "anonymous:203.0.113.9|method:GET"},
		{"an IPv6 peer", keyfuncs.Join(nobody, keyfuncs.Method), "[2001:db8::1%eth0]:1", "anonymous:2001:db8::/64|method:GET"},
		{"a unix socket", keyfuncs.Join(nobody, keyfuncs.Method), "@", "anonymous:none|method:GET"},
		{"garbage", keyfuncs.Join(nobody, keyfuncs.Method), "a|b", "anonymous:none|method:GET"},
		{"two missing parts", keyfuncs.Join(keyfuncs.Header("A"), keyfuncs.Cookie("a")), "203.0.113.9:1", "anonymous:203.0.113.9|anonymous:203.0.113.9"},
		{"an empty key", keyfuncs.Join(constant("", nil), keyfuncs.Method), "203.0.113.9:1", "anonymous:203.0.113.9|method:GET"},
		{"a wrapped ErrNoKey", keyfuncs.Join(constant("x", fmt.Errorf("no tenant: %w", keyfuncs.ErrNoKey)), keyfuncs.Method), "203.0.113.9:1", "anonymous:203.0.113.9|method:GET"},
		{"an Or that found nothing", keyfuncs.Join(keyfuncs.Or(nobody, nobody), keyfuncs.Method), "203.0.113.9:1", "anonymous:203.0.113.9|method:GET"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The fallback believes no header either.
			expectKey(t, test.f, request(test.peer, "X-Forwarded-For: 6.6.6.6"), test.want)
		})
	}
}

// So that an Or around it goes on, and a ban leaves the request alone, as with the function itself.
func TestAJoinOfOneFunctionThatHasNoKeyHasNone(t *testing.T) {
	for _, f := range []keyfuncs.Func{keyfuncs.Header("A"), constant("", nil), constant("x", fmt.Errorf("no tenant: %w", keyfuncs.ErrNoKey))} {
		if got, err := keyfuncs.Join(f)(request("203.0.113.9:1")); !errors.Is(err, keyfuncs.ErrNoKey) || got != "" {
			t.Errorf("key %q, error %v, want ErrNoKey", got, err)
		}
	}
}

func TestOr(t *testing.T) {
	none := constant("", keyfuncs.ErrNoKey)
	broken := errors.New("session store is down")
	r := request("203.0.113.9:1")
	expectKey(t, keyfuncs.Or(constant("a", nil), constant("b", nil)), r, "a")
	expectKey(t, keyfuncs.Or(none, constant("", nil), constant("b", nil), constant("", broken)), r, "b")
	expectKey(t, keyfuncs.Or(keyfuncs.Join(none), constant("b", nil)), r, "b")
	expectKey(t, keyfuncs.Or(keyfuncs.Join(none, keyfuncs.Method), constant("b", nil)), r, "anonymous:203.0.113.9|method:GET")
	expectKey(t, keyfuncs.Or(constant("a", nil)), r, "a")
	if got, err := keyfuncs.Or(none, none)(r); !errors.Is(err, keyfuncs.ErrNoKey) || got != "" {
		t.Errorf("key %q, error %v, want ErrNoKey", got, err)
	}
}

func TestAnotherErrorStopsAndIsWrapped(t *testing.T) {
	broken := errors.New("session store is down")
	r := request("203.0.113.9:1")
	for name, f := range map[string]keyfuncs.Func{
		"keyfuncs: part 2 of 3: session store is down":   keyfuncs.Join(keyfuncs.RemoteIP, constant("x", broken), keyfuncs.Route),
		"keyfuncs: choice 2 of 3: session store is down": keyfuncs.Or(constant("", keyfuncs.ErrNoKey), constant("x", broken), keyfuncs.Route),
	} {
		got, err := f(r)
		if !errors.Is(err, broken) || err.Error() != name || got != "" {
			t.Errorf("key %q, error %v, want %s", got, err, name)
		}
	}
}

func TestMisuseOfJoinAndOrPanicsAtStartUp(t *testing.T) {
	expectPanic(t, func() { keyfuncs.Join() }, "Join", "no function")
	expectPanic(t, func() { keyfuncs.Or() }, "Or", "no function")
	expectPanic(t, func() { keyfuncs.Join(keyfuncs.RemoteIP, nil) }, "Join", "function 2 of 2 is nil")
	expectPanic(t, func() { keyfuncs.Or(nil) }, "Or", "function 1 of 1 is nil")
}

func TestJoinKeepsItsFunctions(t *testing.T) {
	funcs := []keyfuncs.Func{constant("a", nil)}
	f := keyfuncs.Join(funcs...)
	funcs[0] = nil
	expectKey(t, f, request("203.0.113.9:1"), "a")
}

func TestNamespacesAreDistinct(t *testing.T) {
	const value = "203.0.113.9"
	r := request(value, "A: "+value, "Cookie: a="+value)
	r.Host, r.Method, r.Pattern = value, value, value
	r.SetPathValue("a", value)
	seen := map[string]bool{}
	for _, f := range []keyfuncs.Func{
		keyfuncs.RemoteIP, keyfuncs.Host, keyfuncs.Method, keyfuncs.Route, keyfuncs.Global, keyfuncs.Header("A"), keyfuncs.Cookie("a"),
		keyfuncs.PathValue("a"), keyfuncs.User(func(*http.Request) string { return value }), keyfuncs.Anonymous,
	} {
		namespace, _, _ := strings.Cut(key(t, f, r), ":")
		if seen[namespace] {
			t.Errorf("namespace %q is used twice", namespace)
		}
		seen[namespace] = true
	}
}
