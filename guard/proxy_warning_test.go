package guard_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// journal is what a logger has written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// options are the default options with the journal as the logger.
func (j *journal) options() guard.Options {
	return guard.Options{Logger: slog.New(slog.NewJSONHandler(j, nil))}
}

// take returns what has been logged since it was last asked.
func (j *journal) take(t *testing.T) (lines []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	j.text.Reset()
	return lines
}

func (j *journal) expectNothing(t *testing.T) {
	t.Helper()
	if lines := j.take(t); len(lines) > 0 {
		t.Errorf("logged %v, want nothing", lines)
	}
}

// expectWarning wants one line at level warn, which contains the words, and none of what
// is nobody's business.
func (j *journal) expectWarning(t *testing.T, words ...string) {
	t.Helper()
	lines := j.take(t)
	if len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("logged %v, want one warning", lines)
		return
	}
	values := make([]string, 0, len(lines[0]))
	for _, value := range lines[0] {
		if text, ok := value.(string); ok {
			values = append(values, text)
		}
	}
	text := strings.Join(values, "\n")
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("logged\n%s\nwant it to say %q", text, word)
		}
	}
	for _, secret := range []string{"203.0.113.9", "192.0.2.1", "secret"} {
		if strings.Contains(text, secret) {
			t.Errorf("logged\n%s\nwhich tells of %q", text, secret)
		}
	}
}

// forwarded is a request with header lines as "Name: value".
func forwarded(lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/secret?token=secret", nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func serveOnce(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestAProxyIsNoticedWhereTheKeyIsThePeer(t *testing.T) {
	for _, test := range []struct{ line, write string }{
		{"X-Forwarded-For: 203.0.113.9", "keyfuncs.IP(keyfuncs.TrustedProxies("},
		{"Forwarded: for=203.0.113.9", "keyfuncs.IP(keyfuncs.Forwarded("},
		{"X-Real-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-IP", `},
		{"CF-Connecting-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("CF-Connecting-IP", `},
		{"True-Client-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("True-Client-IP", `},
		{"Fastly-Client-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("Fastly-Client-IP", `},
		{"Fly-Client-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("Fly-Client-IP", `},
		{"X-Client-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("X-Client-IP", `},
		{"X-Cluster-Client-IP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("X-Cluster-Client-IP", `},
		{"X-Azure-ClientIP: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("X-Azure-ClientIP", `},
		{"X-Envoy-External-Address: 203.0.113.9", `keyfuncs.IP(keyfuncs.TrustedHeader("X-Envoy-External-Address", `},
	} {
		name, _, _ := strings.Cut(test.line, ":")
		t.Run(name, func(t *testing.T) {
			var log journal
			h := ratelimit.New(memory(), log.options(), guard.PolicyFor(core.Leaky(100, core.PerSecond(1)).Named("api")))(fine)
			serveOnce(h, forwarded())
			log.expectNothing(t)
			for range 3 {
				serveOnce(h, forwarded(test.line))
			}
			log.expectWarning(t, name, "api", test.write, "keyfuncs.RemoteIP")
		})
	}
}

func TestAProxyIsNoticedOnceHoweverManyAsk(t *testing.T) {
	var log journal
	h := ratelimit.New(memory(), log.options(), guard.PolicyFor(core.Leaky(10_000, core.PerSecond(1))))(fine)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				serveOnce(h, forwarded())
				serveOnce(h, forwarded("X-Forwarded-For: 203.0.113.9"))
			}
		})
	}
	group.Wait()
	log.expectWarning(t)
}

func TestWhoseKeyMayBeThePeers(t *testing.T) {
	limit := core.Leaky(100, core.PerSecond(1))
	proxies := keyfuncs.IP(keyfuncs.TrustedProxies("192.0.2.0/24"))
	user := guard.Policy{Limit: core.GCRA(100, core.PerSecond(1)), By: keyfuncs.Header("X-Api-Key")}
	for name, test := range map[string]struct {
		policies []guard.Policy
		warned   bool
	}{
		"the default":                         {[]guard.Policy{{Limit: limit}}, true},
		"the default, by a shadow":            {[]guard.Policy{{Limit: limit, Shadow: true}}, true},
		"the default, by a limit per request": {[]guard.Policy{{LimitFor: func(*http.Request) core.Limit { return limit }}}, true},
		"the default, beside another key":     {[]guard.Policy{user, {Limit: limit}}, true},
		"the default of a layer":              {guard.Layers(guard.Policy{Limit: limit}, user), true},
		"the peer, as somebody has written":   {[]guard.Policy{{Limit: limit, By: keyfuncs.RemoteIP}}, false},
		"a trust model":                       {[]guard.Policy{{Limit: limit, By: proxies}}, false},
		"a trust model of a layer":            {guard.Layers(guard.Policy{Limit: limit, By: proxies}, user), false},
		"another key":                         {[]guard.Policy{user}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			serveOnce(ratelimit.New(memory(), log.options(), test.policies...)(fine), forwarded("X-Forwarded-For: 203.0.113.9"))
			if test.warned {
				log.expectWarning(t, "X-Forwarded-For")
			} else {
				log.expectNothing(t)
			}
		})
	}
}

// Nobody looks for ever whether there is a proxy where clients connect directly.
func TestAProxyIsLookedForOnlyForAWhile(t *testing.T) {
	var log journal
	h := ratelimit.New(memory(), log.options(), guard.PolicyFor(core.Leaky(100_000, core.PerSecond(1))))(fine)
	for range 9_999 {
		serveOnce(h, forwarded())
	}
	serveOnce(h, forwarded("X-Forwarded-For: 203.0.113.9"))
	log.expectWarning(t, "X-Forwarded-For")

	h = ratelimit.New(memory(), log.options(), guard.PolicyFor(core.Leaky(100_000, core.PerSecond(1))))(fine)
	for range 10_000 {
		serveOnce(h, forwarded())
	}
	serveOnce(h, forwarded("X-Forwarded-For: 203.0.113.9"))
	log.expectNothing(t)
}

// defaultJournal is what slog's default logger writes until the test ends.
func defaultJournal(t *testing.T) *journal {
	t.Helper()
	var log journal
	before := slog.Default()
	slog.SetDefault(log.options().Logger)
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}
