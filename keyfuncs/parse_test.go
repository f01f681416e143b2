package keyfuncs_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func user(r *http.Request) (string, error) {
	if id := r.Header.Get("User"); id != "" {
		return "user:" + id, nil
	}
	return "", keyfuncs.ErrNoKey
}

func named(name string) keyfuncs.Func {
	if name == "user" {
		return user
	}
	return nil
}

// forwarded is a request through a proxy, with all that a key may be made of.
func forwarded(change func(*http.Request)) *http.Request {
	r, _ := http.NewRequest(http.MethodPost, "http://Example.com:81/items/7", nil)
	r.RemoteAddr = "10.1.2.3:4"
	r.Pattern = "POST /items/{id}"
	r.SetPathValue("id", "7")
	r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
	r.Header.Set("X-Real-Ip", "203.0.113.77")
	r.Header.Set("Forwarded", "for=203.0.113.88")
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Cookie", "session=s")
	r.Header.Set("User", "42")
	if change != nil {
		change(r)
	}
	return r
}

// What is parsed gives the same keys as what Parse says it stands for.
func TestParseIsWhatItStandsFor(t *testing.T) {
	requests := []*http.Request{
		forwarded(nil),
		forwarded(func(r *http.Request) { r.Header = http.Header{} }),
		forwarded(func(r *http.Request) { r.RemoteAddr = "[2001:db8::1]:2" }),
		forwarded(func(r *http.Request) { r.Pattern, r.Host = "", "" }),
	}
	for text, want := range map[string]keyfuncs.Func{
		"ip":                                    keyfuncs.RemoteIP,
		"(ip)" + strings.Repeat(" or (ip)", 16): keyfuncs.RemoteIP,
		"ip trusted 10.0.0.0/8":                 keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")),
		"ip  trusted 10.0.0.0/8  203.0.113.9":   keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8", "203.0.113.9")),
		"ip hops 2":                             keyfuncs.IP(keyfuncs.TrustedHops(2)),
		"ip header X-Real-IP 10.0.0.0/8":        keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-IP", "10.0.0.0/8")),
		"ip header X-Real-IP":                   keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-IP")),
		"ip forwarded 10.0.0.0/8":               keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8")),
		"ip ipv4 24 ipv6 56":                    keyfuncs.IP(keyfuncs.IPv4Prefix(24), keyfuncs.IPv6Prefix(56)),
		"ip trusted 10.0.0.0/8 ipv4 24":         keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.IPv4Prefix(24)),
		"header X-API-Key":                      keyfuncs.Header("X-API-Key"),
		"bearer":                                keyfuncs.Bearer(),
		"cookie session":                        keyfuncs.Cookie("session"),
		"path id":                               keyfuncs.PathValue("id"),
		"host":                                  keyfuncs.Host,
		"method":                                keyfuncs.Method,
		"route":                                 keyfuncs.Route,
		"global":                                keyfuncs.Global,
		"user":                                  user,
		"((user))":                              user,
		"user or ip":                            keyfuncs.Or(user, keyfuncs.RemoteIP),
		"user or bearer or ip trusted 10.0.0.0/8": keyfuncs.Or(user, keyfuncs.Bearer(), keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))),
		"ip and route and method":                 keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route, keyfuncs.Method),
		"(user or ip hops 1) and route":           keyfuncs.Join(keyfuncs.Or(user, keyfuncs.IP(keyfuncs.TrustedHops(1))), keyfuncs.Route),
		"user or(ip and route)":                   keyfuncs.Or(user, keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)),
	} {
		got, err := keyfuncs.Parse(text, named)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for i, r := range requests {
			key, err := got(r)
			wantKey, wantErr := want(r)
			if key != wantKey || !errors.Is(err, wantErr) {
				t.Errorf("%q of request %d: %q (%v), want %q (%v)", text, i, key, err, wantKey, wantErr)
			}
		}
	}
}

func TestParseAddress(t *testing.T) {
	find, err := keyfuncs.ParseAddress("ip trusted 10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	if got := find(forwarded(nil)).String(); got != "203.0.113.9" {
		t.Errorf("address %s", got)
	}
	if _, err := keyfuncs.ParseAddress("user"); err == nil || err.Error() != `keyfuncs: address "user": "user" is no address: write ip, or ip trusted 10.0.0.0/8` {
		t.Errorf("%v", err)
	}
	if _, err := keyfuncs.ParseAddress("ip and route"); err == nil {
		t.Error("an address and more is taken")
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "a key is missing: write one, such as ip, or header X-API-Key",
		"or ip":                        `a key is missing in front of "or"`,
		"ip and":                       "a key is missing: write one, such as ip, or header X-API-Key",
		"user route":                   `"route" is one word too many: write "and" or "or" between two keys`,
		"user or ip and route":         `it has both "and" and "or": group them by parentheses, as in (user or ip) and route`,
		"(user":                        "a parenthesis is not closed",
		"user)":                        `")" is one word too many: write "and" or "or" between two keys`,
		"tenant":                       `"tenant" is no key that is known here: want ip, header, bearer, cookie, path, host, method, route, global, or a name that the program gives a function to`,
		"header":                       `"" is no name of a header: write header X-API-Key`,
		"header a:b":                   `"a:b" is no name of a header: write header X-API-Key`,
		"header Host":                  "the header Host is kept apart: write host",
		"cookie a=b":                   `"a=b" is no name of a cookie: write cookie session`,
		"path":                         "path has no name: write path id, for the {id} of a pattern",
		"ip trusted":                   "trusted has no address: write those of your proxies behind it, such as 10.0.0.0/8",
		"ip trusted 10.0.0.1/8":        `"10.0.0.1/8": bits set behind the length, want 10.0.0.0/8`,
		"ip trusted 0.0.0.0/0":         `"0.0.0.0/0": believes every peer; if the proxies' addresses are not known, use TrustedHops`,
		"ip hops 0":                    `"0" behind hops is no number from 1 to 32`,
		"ip hops x":                    `"x" behind hops is no number from 1 to 32`,
		"ip ipv6 16":                   `"16" behind ipv6 is no number from 32 to 128`,
		"ip hops 1 trusted 10.0.0.0/8": "it has two trust models, hops and trusted: choose one",
		"ip header X-Forwarded-For":    "X-Forwarded-For is a list: write ip trusted and the addresses of your proxies, or ip hops and their number",
		"ip header Forwarded":          "Forwarded is a list: write ip forwarded and the addresses of your proxies",
		"ip 10.0.0.0/8":                `"10.0.0.0/8" is nothing that ip knows: write trusted, hops, header, forwarded, ipv4 or ipv6 behind it`,
		strings.Repeat("(", 20):        "more than 16 parentheses are open",
	} {
		_, err := keyfuncs.Parse(text, named)
		if err == nil || !strings.HasSuffix(err.Error(), `": `+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("(user or ip trusted 10.0.0.0/8) and route")
	f.Add("header X or cookie y")
	f.Fuzz(func(t *testing.T, text string) {
		by, err := keyfuncs.Parse(text, named)
		if (by == nil) != (err != nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		if _, err := by(forwarded(nil)); err != nil && !errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
