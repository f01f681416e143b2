package accesslog

import (
	"strings"
	"testing"
)

// What a client writes is no syntax: neither brackets nor spaces in the name of a user, nor what looks like a timestamp, hide the line.
func TestUserIsNoSyntax(t *testing.T) {
	p := parsersOf(t, Key{})[Combined]
	const line = `192.0.2.9 - USER [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 401 12 "-" "curl/8 [en] (x)"`
	var want, r Record
	if err := p.Parse([]byte(strings.Replace(line, "USER", "-", 1)), &want); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{
		"x [y", "[", "]", "[]", " [", "a b c", "x [10/Oct/2000:13:55:36 -0700]", "x [10/Oct/2000:13:55:36 -0700] ", `x] \"GET / HTTP/1.0\" 200 1 \"`,
		`[10/Oct/2000:13:55:36 -0700] \x22GET /b HTTP/1.1\x22 200 1`, `[10/Oct/2000:13:55:36 -0700] \"GET /b HTTP/1.1\" 200 1`, `\\`, `"quoted user"`,
		`"x [10/Oct/2000:13:55:36 -0700] "`, `"x [y] "`,
	} {
		text := strings.Replace(line, "USER", user, 1)
		if err := p.Parse([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p.Details(&r)
		if r.Instant != want.Instant || string(r.Key) != "192.0.2.9" || r.Status != 401 || string(r.Path) != "/a" {
			t.Errorf("%s is read as %+v", text, recorded(&r))
		}
		if f, err := Detect([]byte(text)); err != nil || f != Combined {
			t.Errorf("%s: detected %q, %v", text, f, err)
		}
	}
}

// Of a line that cannot be read, the address of its client often can.
func TestAddressOfAnUnreadableLine(t *testing.T) {
	parsers := parsersOf(t, Key{})
	for line, want := range map[string]struct {
		format  Format
		address string
	}{
		`192.0.2.9 - - [32/Nov/2026] "GET / HTTP/1.1"`: {Combined, "192.0.2.9"},
		`shop.example:443 2001:db8::7 - - nonsense`:    {Combined, "2001:db8::/64"},
		`nonsense`:                              {Combined, ""},
		``:                                      {Combined, ""},
		`http now app/x 192.0.2.9:2817 - 0.000`: {ALB, "192.0.2.9"},
		`http now app/x [2001:db8::7]:2817 - 0.000`: {ALB, "2001:db8::/64"},
		`http`: {ALB, ""},
		`{"remote_addr":"192.0.2.9","status":200}`:                              {JSON, "192.0.2.9"},
		`{"request":{"client_ip":"2001:db8::7"},"ts":"noon"}`:                   {JSON, "2001:db8::/64"},
		`{"remote_addr": "192.0.2.9", "status":200, "agent":"cut o`:             {JSON, "192.0.2.9"},
		`{"status":200,"request":{"remote_ip":"192.0.2.9","uri":"\xzz"}}`:       {JSON, "192.0.2.9"},
		`{"agent":"x","ip":"` + strings.Repeat("1", 1000) + `","status":"x"}`:   {JSON, ""},
		`{"agent":"\"remote_addr\":\"192.0.2.1\"","remote_addr":"192.0.2.9",,}`: {JSON, "192.0.2.9"},
		`[]`: {JSON, ""},
	} {
		if got := string(parsers[want.format].Address([]byte(line))); got != want.address {
			t.Errorf("%s: %s: the address is %q, want %q", want.format, line, got, want.address)
		}
	}
}
