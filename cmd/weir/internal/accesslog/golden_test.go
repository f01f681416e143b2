package accesslog

import (
	"errors"
	"testing"
	"time"
)

// Lines that the servers' own documentation shows, and some that real servers wrote.
var golden = map[string]struct {
	format Format
	key    string
	line   string
	want   record
}{
	"Apache combined, httpd.apache.org/docs/2.4/logs.html": {
		Combined, "ip",
		`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"`,
		record{"2000-10-10T20:55:36Z", true, "127.0.0.1", "GET", "", "/apache_pb.gif", "Mozilla/4.08 [en] (Win98; I ;Nav)", 200},
	},
	"Apache common": {
		Combined, "ip", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
		record{"2000-10-10T20:55:36Z", true, "127.0.0.1", "GET", "", "/apache_pb.gif", "", 200},
	},
	"Apache vhost_combined, Debian's apache2.conf": {
		Combined, "ip", `shop.example:443 2001:db8:1:2:3:4:5:6 - - [29/Mar/2026:03:00:00 +0200] "POST /login?next=%2F HTTP/1.1" 401 12 "-" "-"`,
		record{"2026-03-29T01:00:00Z", true, "2001:db8:1:2::/64", "POST", "shop.example:443", "/login", "", 401},
	},
	"nginx main, nginx.org/en/docs/http/ngx_http_log_module.html and its packages": {
		Combined, "header:X-Forwarded-For",
		`10.0.0.1 - - [22/Nov/2026:08:00:01 +0000] "GET /a HTTP/1.1" 304 0 "-" "curl/8.5.0" "198.51.100.1, 203.0.113.7"`,
		record{"2026-11-22T08:00:01Z", true, "203.0.113.7", "GET", "", "/a", "curl/8.5.0", 304},
	},
	"nginx 1.22.1, of a TLS client on a plain port": {
		Combined, "ip", `127.0.0.1 - - [22/Nov/2026:08:00:01 +0000] "\x16\x03\x01\x00\xA5\x01" 400 157 "-" "-"`,
		record{"2026-11-22T08:00:01Z", true, "127.0.0.1", "", "", "", "", 400},
	},
	"Apache 2.4, with quotes in the agent": {
		Combined, "header:User-Agent", `::1 - - [22/Nov/2026:08:00:01 +0000] "GET /a\"b HTTP/1.1" 404 196 "-" "say \"hi\" \\"`,
		record{"2026-11-22T08:00:01Z", true, `say \"hi\" \\`, "GET", "", `/a\"b`, `say \"hi\" \\`, 404},
	},
	"Traefik CLF, doc.traefik.io/traefik/observe/logs-and-access-logs": {
		Combined, "ip", `172.18.0.1 - - [05/Mar/2026:10:00:00 +0000] "GET /api HTTP/1.1" 200 17 "-" "curl/8.5.0" 1 "api@docker" "http://172.18.0.3:80" 2ms`,
		record{"2026-03-05T10:00:00Z", true, "172.18.0.1", "GET", "", "/api", "curl/8.5.0", 200},
	},
	"ALB, docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html": {
		ALB, "ip",
		`https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 ` +
			`"GET https://www.example.com:443/cart?id=1 HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 ` +
			`"Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
		record{"2018-07-02T22:23:00.186641Z", false, "192.168.131.39", "GET", "www.example.com:443", "/cart", "curl/7.46.0", 200},
	},
	"ALB, of a target that did not answer": {
		ALB, "ip",
		`http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 [2001:db8::7]:2817 - 0.000 0.001 0.000 502 - 34 366 ` +
			`"GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:x "Root=1-58337364-23a8c76965a2ef7629b185e3" "-" "-" 0 2018-11-30T22:22:48.364000Z "forward" "-" "LambdaInvalidResponse" "-" "-" "-" "-"`,
		record{"2018-11-30T22:23:00.186641Z", false, "2001:db8::/64", "GET", "www.example.com:80", "/", "curl/7.46.0", 502},
	},
	"Caddy, caddyserver.com/docs/logging": {
		JSON, "ip",
		`{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
		record{"2022-03-09T21:30:01.524102Z", false, "127.0.0.1", "GET", "localhost", "/a", "curl/7.82.0", 200},
	},
	"Caddy, by a header": {
		JSON, "header:x-api-key", `{"ts":1646861401,"request":{"method":"GET","uri":"/","headers":{"X-Api-Key":["k1"]}},"status":429}`,
		record{"2022-03-09T21:30:01Z", true, "k1", "GET", "", "/", "", 429},
	},
	"Traefik JSON, doc.traefik.io/traefik/observe/logs-and-access-logs": {
		JSON, "ip",
		`{"ClientAddr":"10.42.0.1:51234","ClientHost":"10.42.0.1","DownstreamStatus":404,"RequestMethod":"GET","RequestPath":"/x?y=1","RequestHost":"shop.example","StartUTC":"2026-03-05T10:00:00.123456789Z","request_User-Agent":"curl/8.5.0","time":"2026-03-05T10:00:01Z"}`,
		record{"2026-03-05T10:00:00.123456Z", false, "10.42.0.1", "GET", "shop.example", "/x", "curl/8.5.0", 404},
	},
	"nginx with escape=json": {
		JSON, "json:.user.id", `{"time_iso8601":"2026-11-22T08:00:01+01:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":"200","http_user_agent":"curl","user":{"id":42}}`,
		record{"2026-11-22T07:00:01Z", true, "42", "GET", "", "/a", "curl", 200},
	},
	"JSON in milliseconds": {
		JSON, "ip", `{"timestamp":1646861401524,"ip":"192.0.2.1","status":200}`,
		record{"2022-03-09T21:30:01.524Z", false, "192.0.2.1", "", "", "", "", 200},
	},
	"JSON without a zone": {
		JSON, "ip", `{"time":"2026-07-01 12:00:00","ip":"::ffff:192.0.2.1","status":200}`,
		record{"2026-07-01T10:00:00Z", true, "192.0.2.1", "", "", "", "", 200},
	},
}

// record is a Record that can be written down.
type record struct {
	instant                        string
	whole                          bool
	key, method, host, path, agent string
	status                         int
}

func recorded(r *Record) record {
	return record{
		time.UnixMicro(r.Instant).UTC().Format(time.RFC3339Nano), r.Whole, string(r.Key), string(r.Method), string(r.Host), string(r.Path), string(r.Agent), r.Status,
	}
}

func TestGoldenLines(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range golden {
		key, err := ParseKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(c.format, Options{Key: key, Zone: berlin})
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := p.Parse([]byte(c.line), &r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Details(&r)
		if got := recorded(&r); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
		if f, err := Detect([]byte(c.line + "\n")); err != nil || f != c.format {
			t.Errorf("%s: detected %q, %v", name, f, err)
		}
	}
}

// What a line says does not depend on the line before it, whatever that was.
func TestLinesAreReadOneByOne(t *testing.T) {
	parsers := parsersOf(t, Key{})
	for name, c := range golden {
		if c.key != "ip" || c.format == JSON && c.want.instant == "2026-07-01T10:00:00Z" { // that of Berlin
			continue
		}
		before := [][]byte{nil, []byte(`a - - [] "GET / HTTP/1.1" 200 1`), []byte("{}"), []byte(c.line)}
		for _, other := range golden {
			before = append(before, []byte(other.line))
		}
		for _, line := range before {
			var r Record
			if parsers[c.format].Parse(line, &r) == nil {
				parsers[c.format].Details(&r)
			}
			if err := parsers[c.format].Parse([]byte(c.line), &r); err != nil {
				t.Errorf("%s, after %q: %v", name, line, err)
				continue
			}
			parsers[c.format].Details(&r)
			if got := recorded(&r); got != c.want {
				t.Errorf("%s, after %q:\n got %+v\nwant %+v", name, line, got, c.want)
			}
		}
	}
}

func TestLinesThatCannotBeRead(t *testing.T) {
	parsers := parsersOf(t, Key{})
	for line, format := range map[string]Format{
		``: Combined, `127.0.0.1 - - "GET / HTTP/1.1" 200 1`: Combined, `127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] GET`: Combined,
		`127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" ok 1`: Combined, `127.0.0.1 - - [10/Okt/2000:13:55:36 -0700] "GET /" 200 1`: Combined,
		`a - - [32/Oct/2000:13:55:36 -0700] "GET /" 200 1`: Combined, `a - - [10/Oct/2000:24:55:36 -0700] "GET /" 200 1`: Combined,
		`a - - [10/Oct/2000:13:55:36 -0700] "GET / 200`: Combined, `a - - [] "GET / HTTP/1.1" 200 1`: Combined, `https 2018-07-02T22:23:00.186641Z app`: ALB,
		`{`: JSON, `[]`: JSON, `{"status":200}`: JSON, `{"ts":12,"status":200}`: JSON, `{"ts":1646861401}`: JSON, `{"ts":"noon","status":200}`: JSON,
	} {
		var r Record
		if err := parsers[format].Parse([]byte(line), &r); err == nil || errors.Is(err, ErrNoKey) {
			t.Errorf("%q: %v, %+v", line, err, r)
		}
	}
	var r Record
	if err := parsers[JSON].Parse([]byte(`{"ts":1646861401,"status":200}`), &r); !errors.Is(err, ErrNoKey) {
		t.Errorf("a line without an address: %v", err)
	}
	if _, err := Detect([]byte("hello\nworld\n")); !errors.Is(err, ErrUnknown) {
		t.Errorf("a text: %v", err)
	}
}

// The hour that a clock shows twice is two hours, since the offset tells them apart.
func TestClocksThatAreChanged(t *testing.T) {
	p := parsersOf(t, Key{})[Combined]
	var first, second Record
	for r, offset := range map[*Record]string{&first: "+0200", &second: "+0100"} {
		if err := p.Parse([]byte(`192.0.2.1 - - [25/Oct/2026:02:30:00 `+offset+`] "GET / HTTP/1.1" 200 1`), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := time.Duration(second.Instant-first.Instant) * time.Microsecond; got != time.Hour {
		t.Errorf("half past two and half past two are %v apart", got)
	}
}

func TestDaysSince1970(t *testing.T) {
	for day := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2101; day = day.AddDate(0, 0, 1) {
		if got, want := daysSince1970(int64(day.Year()), int64(day.Month()), int64(day.Day())), day.Unix()/86400; got != want {
			t.Fatalf("%v: %d, want %d", day, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, text := range []string{"ip", "header:X-Api-Key", "json:.user.id"} {
		if k, err := ParseKey(text); err != nil || k.String() != text {
			t.Errorf("%s: %s, %v", text, k, err)
		}
	}
	for _, text := range []string{"", "user", "header:", "json:user", "json:."} {
		if k, err := ParseKey(text); err == nil {
			t.Errorf("%s: %s", text, k)
		}
	}
	for text, f := range map[string]Format{"header:X-Api-Key": Combined, "json:.user": ALB} {
		k, _ := ParseKey(text)
		if _, err := New(f, Options{Key: k}); err == nil {
			t.Errorf("%s logs no %s", f, text)
		}
	}
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "[2001:db8::1]:80": "2001:db8::/64",
		"::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::/64", "host.example": "host.example", "::x": "::x",
	} {
		if got := string(subscriber([]byte(text))); got != want {
			t.Errorf("%s counts as %s, want %s", text, got, want)
		}
	}
}

// parsersOf returns a parser of each format.
func parsersOf(tb testing.TB, key Key) map[Format]Parser {
	tb.Helper()
	all := make(map[Format]Parser)
	for _, f := range []Format{Combined, ALB, JSON} {
		p, err := New(f, Options{Key: key})
		if err != nil {
			tb.Fatal(err)
		}
		all[f] = p
	}
	return all
}

// No line makes a parser panic, and what it returns of a line makes sense.
func FuzzParse(f *testing.F) {
	for _, c := range golden {
		f.Add([]byte(c.line))
	}
	parsers := parsersOf(f, Key{})
	f.Fuzz(func(t *testing.T, line []byte) {
		for format, p := range parsers {
			var r Record
			if err := p.Parse(line, &r); err != nil {
				continue
			}
			p.Details(&r)
			if len(r.Key) == 0 || r.Status < 0 || r.Status > 999 || r.Instant < 0 || r.Instant > 253402300799_999999 {
				t.Errorf("%s: %q is %+v", format, line, r)
			}
		}
		_, _ = Detect(line)
	})
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"Apache combined, httpd.apache.org/docs/2.4/logs.html", "Caddy, caddyserver.com/docs/logging"} {
		c := golden[name]
		p := parsersOf(b, Key{})[c.format]
		line := []byte(c.line)
		b.Run(string(c.format), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			var r Record
			for b.Loop() {
				if err := p.Parse(line, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(c.format)+" with its details", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			var r Record
			for b.Loop() {
				if err := p.Parse(line, &r); err != nil {
					b.Fatal(err)
				}
				p.Details(&r)
			}
		})
	}
}
