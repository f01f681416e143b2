package accesslog

import (
	"errors"
	"strings"
	"testing"
)

const (
	ingress = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length ` +
		`$request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id`
	tail = ` 400 0.003 [shop-web-80] [] 10.0.0.1:80, 10.0.0.2:80 0, 12 0.001, 0.002 502, 401 0f3a`
)

// A format of one's own is read from both ends, so what a client writes is no syntax.
func TestTemplates(t *testing.T) {
	for _, c := range []struct{ format, key, line, want, method, host, path, agent string }{
		{
			ingress, "ip", `2001:db8::7 - x [y] "z [22/Nov/2026:08:00:01 +0000] "POST /a?b HTTP/1.1" 401 12 "-" "say \"hi\" [en]"` + tail,
			"2001:db8::/64", "POST", "", "/a", `say \"hi\" [en]`,
		},
		{
			ingress, "ip", `192.0.2.9 - a [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1 "-" "-"` + tail + ` [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 401 12 "-" "-"` + tail,
			"192.0.2.9", "GET", "", "/a", "",
		},
		{
			`$host:$server_port $remote_addr:$remote_port [$time_iso8601] "$request_method $request_uri" $status ua=$http_user_agent rt=$request_time`, "ip",
			`shop.example:443 2001:db8::7:5123 [2026-11-22T08:00:01+00:00] "GET /a?c" 401 ua=curl rt=1 rt=0.003`, "2001:db8::/64", "GET", "shop.example", "/a", "curl rt=1",
		},
		{
			`%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D`, "header:User-Agent",
			`shop.example:443 192.0.2.9 - x [y "z [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 401 12 "-" "curl" 17`, "curl", "GET", "shop.example", "/a", "curl",
		},
		{`%a %{msec}t %m %U%q %s 100%%`, "ip", `192.0.2.9 1795334401000 GET /a?x=1 401 100%`, "", "", "", "", ""},
		{`%a %{msec}t %m "%U" %q %s 100%%`, "ip", `192.0.2.9 1795334401000 GET "/a" ?x=1 401 100%`, "192.0.2.9", "GET", "", "/a", ""},
		{`$msec $status $remote_addr "$http_x_forwarded_for"`, "header:X-Forwarded-For", `1795334401.000 401 10.0.0.1 "192.0.2.1, 192.0.2.9"`, "192.0.2.9", "", "", "", ""},
	} {
		key, err := ParseKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseFormat(c.format)
		if c.want == "" {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %v", c.format, err)
			}
			continue
		}
		p, err2 := New(f, Options{Key: key, Whole: true, Values: []Key{key}})
		if err = errors.Join(err, err2); err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		var r Record
		if err := p.Parse([]byte(c.line), &r); err != nil {
			t.Errorf("%s: %s: %v", c.format, c.line, err)
			continue
		}
		p.Details(&r)
		got, want := recorded(&r), record{"2026-11-22T08:00:01Z", r.Whole, c.want, c.method, c.host, c.path, c.agent, 401}
		if got != want || len(r.Values) != 1 {
			t.Errorf("%s: %s\n got %+v\nwant %+v", c.format, c.line, got, want)
		}
		for _, cut := range []string{c.line[:len(c.line)-1] + "\x00 x", "x " + c.line, strings.Replace(c.line, "401", "4O1", 1)} {
			if p.Parse([]byte(cut), &r) == nil && r.Status == 401 && !strings.Contains(cut, `"GET / HTTP/1.0"`) {
				t.Errorf("%s: %s is read as %+v", c.format, cut, recorded(&r))
			}
		}
		for i := range c.line {
			if p.Parse([]byte(c.line[:i]), &r) == nil {
				p.Details(&r)
			}
			_ = p.Address([]byte(c.line[:i]))
		}
	}
	p, err := New(ingress, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.Address([]byte(`192.0.2.9 - x nonsense`))); got != "192.0.2.9" {
		t.Errorf("of a line that is not in the format, the address is %q", got)
	}
}

// A format of which lines cannot be told for sure is refused, with the reason.
func TestTemplatesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		`$remote_addr $remote_user $http_x [$time_local] $status`: "$remote_user and in $http_x",
		`$remote_addr [$time_local]`:                              "a timestamp and a status",
		`$remote_addr $status`:                                    "a timestamp and a status",
		`%h %{%Y}t %s`:                                            "%{%Y}t",
		`%h%t %s`:                                                 "nothing stands between %h and %t",
		`{"ip":"$remote_addr"}`:                                   "json",
	} {
		if _, err := ParseFormat(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, key := range []string{"header:X-Api-Key", "json:.user"} {
		k, _ := ParseKey(key)
		if _, err := New(ingress, Options{Key: k}); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// No line makes a parser of a template panic.
func FuzzTemplate(f *testing.F) {
	f.Add(`192.0.2.9 - x [y [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 401 12 "-" "-"` + tail)
	f.Add(`192.0.2.9 - - [22/Nov/2026:08:00:01 +0000] "`)
	p, err := New(ingress, Options{Whole: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var r Record
		if p.Parse([]byte(line), &r) == nil {
			if p.Details(&r); len(r.Key) == 0 || r.Status > 999 {
				t.Errorf("%q is %+v", line, r)
			}
		}
		if address := p.Address([]byte(line)); len(address) > 64 {
			t.Errorf("of %q, the address is %q", line, address)
		}
	})
}
