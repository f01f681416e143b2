package caddyratelimit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/crypto/bcrypt"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// The short form limits each address, and the answers say how.
func TestOneLine(t *testing.T) {
	s := serve(t, "weir fixed-window 2, 1h\nrespond served")
	for left := 1; left >= 0; left-- {
		status, body, h := s.get("/")
		if want := fmt.Sprintf(`"fixed-window:2:1h";r=%d;t=`, left); status != http.StatusOK || body != "served" || !strings.HasPrefix(h.Get("RateLimit"), want) {
			t.Errorf("%d %s %q", status, body, h)
		}
	}
	status, body, h := s.get("/")
	if status != http.StatusTooManyRequests || h.Get("Retry-After") != "3600" || h.Get("Content-Type") != "application/problem+json" ||
		h.Get("Cache-Control") != "no-store" || !strings.Contains(body, `"violated-policies":["fixed-window:2:1h"]`) {
		t.Errorf("%d %s %q", status, body, h)
	}
}

const whole = `
:80 {
	weir /api/* {
		store redis://localhost:6379
		limit leaky 10, 1/s {
			match POST /login
			match example.com/api/
			key client_ip and header X-API-Key
			on_error closed
		}
		limit concurrent 5, 30s
	}
}`

// A Caddyfile and its JSON say the same.
func TestCaddyfileIsJSON(t *testing.T) {
	text, err := adapted(whole)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Routes []struct{ Handle []map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"handler": "weir", "store": "redis://localhost:6379", "limits": []any{
			map[string]any{
				"limit": "leaky 10, 1/s", "match": []any{"POST /login", "example.com/api/"}, "key": "client_ip and header X-API-Key", "on_error": "closed",
			},
			map[string]any{"limit": "concurrent 5, 30s"},
		},
	}
	if got := config.Apps.HTTP.Servers["srv0"].Routes[0].Handle[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var loaded caddy.Config
	if err := json.Unmarshal(text, &loaded); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&loaded); err != nil {
		t.Error(err)
	}
	if n, _ := limiters.References("redis://localhost:6379"); n != 0 {
		t.Errorf("%d handlers have kept the store", n)
	}
}

// A mistake is found when the configuration is loaded, is told in words, and leaves nothing behind.
func TestMistakes(t *testing.T) {
	for directives, want := range map[string]string{
		"weir":           "neither a limit nor a file",
		"weir sometimes": ":2",
		"weir {\nlimit leaky 1, 1/s\nlimit 10 a day\n}":        ":4",
		"weir leaky 1, 1/s {\npolicies limits.yaml\n}":         "both a file of policies and limits",
		"weir {\npolicies /nowhere/limits.yaml\n}":             "no such file",
		"weir {\npolicies\n}":                                  "wrong argument count",
		"weir {\nstore a b\n}":                                 "wrong argument count",
		"weir leaky 1, 1/s {\nstore ftp://localhost\n}":        "ftp",
		"weir leaky 1, 1/s {\nstore {env.NOT_SET_ANYWHERE}\n}": "NOT_SET_ANYWHERE",
		"weir {\nlimt leaky 1, 1/s\n}":                         "weir has no limt",
		"weir {\nlimit\n}":                                     "wrong argument count",
		"weir {\nlimit leaky 1, 1/s {\nkey\n}\n}":              "wrong argument count",
		"weir {\nlimit leaky 1, 1/s {\nby ip\n}\n}":            "a limit has no by",
		"weir {\nlimit leaky 1, 1/s {\nkey passport\n}\n}":     `"passport"`,
		"weir {\nlimit leaky 1, 1/s {\nmatch GET\n}\n}":        "has no path",
		"weir {\nlimit leaky 1, 1/s {\non_error maybe\n}\n}":   `onError "maybe"`,
	} {
		text, err := adapted(":80 {\n" + directives + "\n}")
		if err == nil {
			var loaded caddy.Config
			if err = json.Unmarshal(text, &loaded); err == nil {
				err = caddy.Validate(&loaded)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", directives, err, want)
		}
	}
	if n, _ := limiters.References("memory:"); n != 0 {
		t.Errorf("%d handlers have kept the store", n)
	}
}

// A reload keeps what was used, and the configurations of before leave nothing behind.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  - {limit: 'fixed-window 100, 1h', key: client_ip}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "weir {\npolicies "+file+"\n}\nrespond 0")
	s.want(http.StatusOK, "/")
	before := runtime.NumGoroutine()
	for i := range 20 {
		s.reload(fmt.Sprintf("weir {\npolicies %s\n}\nrespond %d", file, i))
	}
	status, _, h := s.get("/")
	if status != http.StatusOK || !strings.Contains(h.Get("RateLimit"), ";r=98;") {
		t.Errorf("%d %q", status, h)
	}
	eventually(t, "one configuration has the store", func() bool {
		n, _ := limiters.References("memory:")
		return n == 1
	})
	eventually(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() < before+10 })
	s.load("")
	eventually(t, "no configuration has the store", func() bool {
		_, used := limiters.References("memory:")
		return !used
	})
}

// A file of policies is followed, without a reload.
func TestPoliciesOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(limit string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte("policies:\n  - {limit: '"+limit+"', key: client_ip, match: GET /api/, settle: {5xx: 0}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("fixed-window 1, 1h")
	s := serve(t, "weir {\npolicies "+file+"\n}\nerror /api/fail 502\nrespond served")
	served := func() bool {
		status, _, _ := s.get("/api/")
		return status == http.StatusOK
	}
	s.want(http.StatusBadGateway, "/api/fail")
	eventually(t, "an error that Caddy answers costs nothing", served) // it is settled beside its answer
	s.want(http.StatusTooManyRequests, "/api/")
	s.want(http.StatusOK, "/")
	write("fixed-window 7, 1h")
	eventually(t, "the new limit is in force", served)
}

// Several handlers and servers that name one Redis have one counter, and an outage is answered as the limit says.
func TestRedis(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr()
	if _, _, err := limiters.LoadOrNew(url, func() (caddy.Destructor, error) { // which the handlers find
		opened, err := core.Open(url, core.WithBudget(time.Minute)) // however busy the machine is
		return limiter{opened}, err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = limiters.Delete(url) })
	t.Setenv("LIMITS_AT", url)
	s := serve(t, "route /a {\nweir fixed-window 2, 1h {\nstore {env.LIMITS_AT}\n}\nrespond a\n}\nroute /b {\nweir fixed-window 2, 1h {\nstore {env.LIMITS_AT}\n}\nrespond b\n}")
	s.want(http.StatusOK, "/a")
	s.want(http.StatusOK, "/b")
	s.want(http.StatusTooManyRequests, "/a")
	s.reload("weir {\nstore redis://127.0.0.1:1\nlimit fixed-window 1, 1h {\nmatch /closed\non_error closed\n}\nlimit fixed-window 1, 1h {\nmatch /open\n}\n}\nrespond served")
	s.want(http.StatusServiceUnavailable, "/closed")
	s.want(http.StatusOK, "/open")
}

// However a client writes a path, it runs no handler of Caddy's without the policy of that handler.
func TestSpellingsOfThePath(t *testing.T) {
	s := serve(t, `weir {
	limit fixed-window 1, 1h {
		match /Login
		key header X-Case
	}
	limit fixed-window 1, 1h {
		match /files/secret.txt
		key header X-Case
	}
	limit fixed-window 1, 1h {
		match /api/
		key header X-Case
	}
}
handle /login {
	respond in
}
handle_path /api/* {
	respond in
}
handle /files/* {
	root `+files(t)+`
	file_server
}
respond elsewhere`)
	h2 := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	h2.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	n := 0
	served := map[string]int{}
	for canonical, spellings := range map[string]string{
		"/login": "/LOGIN /Login //login /./login /x/../login /%6cogin /%4COGIN /login/ /login? /login?x=/y /%2flogin /login%2f /x%2f..%2flogin /%2e/login /login%00 " +
			"http://elsewhere.test/login http://127.0.0.1/LOGIN /login;a /loo/../login /login/. /login/../login /%E2%84%AAlogin",
		"/files/secret.txt": "/FILES/secret.txt /files//secret.txt /files/./secret.txt /files/x/../secret.txt /files%2fsecret.txt /%66iles/secret.txt " +
			"//files/secret.txt /files/%73ecret.txt /files/secret%2etxt /x/../files/secret.txt /files/secret.txt/ /files/secret.txt%2f /Files/x%2f..%2fsecret.txt",
		"/api/x": "/API/x /api//x /%61pi/x /api%2fx //api/x /x/../api/x /Api/../api/x /api/./x /ap%69/x",
	} {
		for spelling := range strings.FieldsSeq(spellings) {
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
				n++
				one := fmt.Sprintf("X-Case: %d", n)
				if status, body, _ := s.get(canonical, one); status != http.StatusOK || body != "in" {
					t.Fatalf("%s: %d %s", canonical, status, body)
				}
				var status int
				var body string
				if protocol == "HTTP/1.1" {
					status, body, _ = s.raw(spelling, "127.0.0.1", one)
				} else if !strings.HasPrefix(spelling, "//") && strings.HasPrefix(spelling, "/") { // clients of net/http write no others
					status, body, _ = s.ask(h2, spelling, one)
				}
				if body == "in" {
					t.Errorf("%s %s: %d %s without the policy of %s", protocol, spelling, status, body, canonical)
				} else if status == http.StatusTooManyRequests {
					served[canonical]++
				}
			}
		}
		if served[canonical] < 10 {
			t.Errorf("%d spellings of %s are denied: the test has too few of them", served[canonical], canonical)
		}
	}
}

// files returns a directory with a file that is limited.
func files(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "files", "secret.txt"), []byte("in"), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

// However a client writes the host, it runs no handler of a site without the policy of that host.
func TestSpellingsOfTheHost(t *testing.T) {
	s := serve(t, "weir {\nlimit fixed-window 1, 1h {\nmatch a.test/\nkey header X-Case\n}\n}\n@a host a.test\nrespond @a in\nrespond elsewhere")
	for i, host := range []string{"a.test", "A.test", "a.TEST:80", "a.test.", "a.test:99", "A.TEST.:7", "[a.test]", " a.test"} {
		one := fmt.Sprintf("X-Case: %d", i)
		if status, body, _ := s.raw("/", "a.test", one); status != http.StatusOK || body != "in" {
			t.Fatalf("%d %s", status, body)
		}
		if status, body, _ := s.raw("/", host, one); body == "in" {
			t.Errorf("%q: %d %s", host, status, body)
		}
		if status, body, _ := s.raw("http://"+strings.TrimSpace(host)+"/", "elsewhere.test", one); body == "in" {
			t.Errorf("the target of %q: %d %s", host, status, body)
		}
	}
}

// A body is passed on whole, and a denial does not wait for one: it closes the connection, which it does not without a body.
func TestBodies(t *testing.T) {
	s := serve(t, "weir {\nlimit fixed-window 1, 1h\n}\nrespond {http.request.body}")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		response, err := s.tester.Client.Post(fmt.Sprintf("http://127.0.0.1:%d/", s.port), "text/plain", strings.NewReader("words"))
		if err != nil {
			t.Fatal(err)
		}
		if status, body, _ := s.read(response); status != want || want == http.StatusOK && body != "words" || response.Close != (want != http.StatusOK) {
			t.Errorf("%d %s, and closes %v", status, body, response.Close)
		}
	}
	response, err := s.tester.Client.Get(fmt.Sprintf("http://127.0.0.1:%d/", s.port))
	if err != nil {
		t.Fatal(err)
	}
	if status, body, _ := s.read(response); status != http.StatusTooManyRequests || response.Close {
		t.Errorf("without a body: %d %s, and closes %v", status, body, response.Close)
	}
}

// However a client writes the method, it meets the policy of that method, and the handler behind sees the method as it was sent.
func TestSpellingsOfTheMethod(t *testing.T) {
	s := serve(t, "weir {\nlimit fixed-window 1, 1h {\nmatch POST /login\nkey header X-Case\n}\n}\nrespond {method}")
	for i, method := range []string{"POST", "post", "Post", "pOST"} {
		one := fmt.Sprintf("X-Case: %d", i)
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if status, body, _ := s.rawBy(method, "/login", "127.0.0.1", one); status != want || status == http.StatusOK && body != method {
				t.Errorf("%s: %d %s, want %d", method, status, body, want)
			}
		}
	}
}

// The address is the one that Caddy has found, if no client can choose it.
func TestAddresses(t *testing.T) {
	const directives = "weir fixed-window 1, 1h\nrespond served"
	for _, test := range []struct {
		extra, first, second string
		want                 int
	}{
		{"", "203.0.113.1", "203.0.113.2", 429},
		{"trusted_proxies static 127.0.0.1\ntrusted_proxies_strict", "203.0.113.1", "203.0.113.2", 200},
		{"trusted_proxies static 127.0.0.1\ntrusted_proxies_strict", "203.0.113.1", "203.0.113.1", 429},
		{"trusted_proxies static 127.0.0.1\ntrusted_proxies_strict", "198.51.100.1, 203.0.113.1", "198.51.100.2, 203.0.113.1", 429},
		{"trusted_proxies static 127.0.0.1\ntrusted_proxies_strict", "2001:db8::1", "2001:db8::2", 429}, // of one /64
		{"trusted_proxies static 127.0.0.1", "198.51.100.1, 203.0.113.1", "198.51.100.2, 203.0.113.1", 429},
		{"trusted_proxies static 10.0.0.0/8\ntrusted_proxies_strict", "203.0.113.1", "203.0.113.2", 429},
	} {
		t.Run(test.extra+" "+test.first, func(t *testing.T) {
			extra = test.extra
			defer func() { extra = "" }()
			s := serve(t, directives)
			s.want(http.StatusOK, "/", "X-Forwarded-For: "+test.first)
			s.want(test.want, "/", "X-Forwarded-For: "+test.second)
		})
	}
}

// The user is the one that Caddy's authentication has found.
func TestUsers(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf("route {\nbasic_auth {\nalice %s\nbob %s\n}\nweir {\nlimit fixed-window 1, 1h {\nkey user\n}\n}\nrespond served\n}", hash, hash))
	as := func(user string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))
	}
	s.want(http.StatusOK, "/", as("alice"))
	s.want(http.StatusTooManyRequests, "/", as("alice"))
	s.want(http.StatusOK, "/", as("bob"))
}

// Handlers one behind the other make one list of fields, and charge one limit once.
func TestHandlersAddUp(t *testing.T) {
	s := serve(t, "weir fixed-window 3, 1h\nweir leaky 5, 1/h {\nlimit fixed-window 3, 1h\n}\nrespond served")
	for left := 2; left >= 0; left-- {
		status, _, h := s.get("/")
		told := strings.Join(h.Values("RateLimit"), ", ")
		want := fmt.Sprintf(`"fixed-window:3:1h";r=%d;`, left)
		if status != http.StatusOK || strings.Count(told, `"fixed-window:3:1h"`) != 1 || !strings.Contains(told, want) || !strings.Contains(told, `"leaky:5:1/h"`) {
			t.Errorf("%d %s, want %s", status, told, want)
		}
	}
	s.want(http.StatusTooManyRequests, "/")
}

// Directives behind the limiter change the request that placeholders read, and see its decisions' fields.
func TestPlaceholdersReadTheRequest(t *testing.T) {
	s := serve(t, "weir {\nlimit concurrent 1, 1m\n}\nmethod PUT\nrewrite * /other?x=1\nrespond \"{method} {uri} {http.request.orig_uri}\"")
	for range 3 {
		eventually(t, "the place is given back", func() bool {
			status, body, _ := s.get("/first")
			if status == http.StatusOK && body != "PUT /other?x=1 /first" {
				t.Errorf("%s", body)
			}
			return status == http.StatusOK
		})
	}
}
