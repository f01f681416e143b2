package serving

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

const policiesText = `
limits:
  everybody: fixed-window 2, 1h
policies:
  - limit: everybody
    key: ip
    onError: closed
`

// check asks a service as a proxy does, and returns the status and the limit's field.
func (r *running) check(t *testing.T, path, client string) (status int, field string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTP.String()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Method": "GET", "Uri": "/", "Host": "example.com", "For": client} {
		request.Header.Set("X-Forwarded-"+name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("RateLimit-Policy")
}

// With policies alone, a service answers proxies, and listens for nothing else.
func TestPoliciesAlone(t *testing.T) {
	file := write(t, t.TempDir(), "limits.yaml", policiesText)
	r := start(t, func(s *Settings) {
		s.Config, s.Policies = "", Policies{File: file, Trusted: []string{"127.0.0.1"}, Replicas: 1}
	})
	if r.GRPC != nil || r.Debug != nil {
		t.Errorf("it listens on %v and %v", r.GRPC, r.Debug)
	}
	for i, want := range []int{200, 200, 429} {
		if status, _ := r.check(t, "/check", "203.0.113.9"); status != want {
			t.Errorf("check %d: %d, want %d", i, status, want)
		}
	}
	if status, _ := r.check(t, "/check/nginx", "203.0.113.9"); status != http.StatusForbidden {
		t.Errorf("nginx is answered with %d", status)
	}
	for path, want := range map[string]int{"/healthcheck": 200, "/json": 404, "/check/other": 404} {
		if status, _ := r.check(t, path, "203.0.113.9"); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// Beside the service of Envoy, both are served.
func TestPoliciesBesideEnvoy(t *testing.T) {
	file := write(t, t.TempDir(), "limits.yaml", policiesText)
	r := start(t, func(s *Settings) { s.Policies = Policies{File: file, Trusted: []string{"127.0.0.1"}, Replicas: 1} })
	if status, _ := r.check(t, "/check", "203.0.113.9"); status != http.StatusOK || r.GRPC == nil || r.Debug == nil {
		t.Errorf("%d, %v, %v", status, r.GRPC, r.Debug)
	}
	without := start(t, func(*Settings) {})
	if status, _ := without.check(t, "/check", "203.0.113.9"); status != http.StatusNotFound {
		t.Errorf("without policies, a check is answered with %d", status)
	}
}

// A file that has changed comes into force, and keeps what was used. One that makes no sense, or that a check cannot decide, changes nothing.
func TestPoliciesAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "limits.yaml", policiesText)
	r := start(t, func(s *Settings) {
		s.Config, s.Policies = "", Policies{File: file, Trusted: []string{"127.0.0.1"}, Replicas: 1}
	})
	for _, bad := range []struct{ text, says string }{
		{"policies: [", "limits.yaml"},
		{policiesText + "  - limit: concurrent 2, 30s\n    key: ip\n", "nobody would give the place back"},
		{policiesText + "  - limit: leaky 2, 1/s\n    key: user\n", "user"},
	} {
		write(t, dir, "limits.yaml", bad.text)
		eventually(t, bad.says, func() bool { return r.log.has(bad.says) && r.log.has("stay as they were") })
		if _, field := r.check(t, "/check", "203.0.113.7"); !strings.Contains(field, `"everybody";q=2`) {
			t.Errorf("after %q, %s is in force", bad.text, field)
		}
		r.check(t, "/check", "203.0.113.8")
	}
	write(t, dir, "limits.yaml", strings.ReplaceAll(policiesText, "window 2", "window 3"))
	eventually(t, "the new file is in force", func() bool {
		_, field := r.check(t, "/check", "203.0.113.7")
		return strings.Contains(field, `"everybody";q=3`)
	})
	if status, _ := r.check(t, "/check", "203.0.113.8"); status != http.StatusOK {
		t.Errorf("a third check is answered with %d", status)
	}
	if status, _ := r.check(t, "/check", "203.0.113.8"); status != http.StatusTooManyRequests {
		t.Errorf("a fourth check is answered with %d: what was used is forgotten", status)
	}
}

// Policies that make no sense, or that a check cannot decide, keep the service from starting.
func TestPoliciesThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		text, says string
		trusted    []string
	}{
		{"policies: [", "limits.yaml", []string{"127.0.0.1"}},
		{"policies:\n  - limit: concurrent 2, 30s\n    key: ip\n", "line 2", []string{"127.0.0.1"}},
		{policiesText, "proxy.example", []string{"proxy.example"}},
	} {
		settings, err := FromEnvironment(nil)
		if err != nil {
			t.Fatal(err)
		}
		settings.Config, settings.HTTP, settings.Store.URL = "", "127.0.0.1:0", "memory:"
		settings.Policies = Policies{File: write(t, t.TempDir(), "limits.yaml", c.text), Trusted: c.trusted, Replicas: 1}
		if err := Run(t.Context(), settings, slog.New(slog.DiscardHandler), func(Addresses) { t.Error("it serves") }); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// While the store is gone, checks are decided by their policies without it, and the service says that it is not well.
func TestPoliciesWithoutTheirStore(t *testing.T) {
	redis := redistest.Start(t)
	file := write(t, t.TempDir(), "limits.yaml", policiesText)
	r := start(t, func(s *Settings) {
		defaults, err := FromEnvironment(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Config, s.Policies, s.Store.URL, s.Rules.Timeout = "", Policies{File: file, Trusted: []string{"127.0.0.1"}, Replicas: 1}, redis.URL(), defaults.Rules.Timeout
	})
	redis.Pause(t) // it never answers while it is asked
	for range 3 {
		if status, _ := r.check(t, "/check", "203.0.113.9"); status != http.StatusServiceUnavailable {
			t.Errorf("a check is answered with %d", status)
		}
	}
	eventually(t, "the service is not well", func() bool {
		status, _ := r.check(t, "/healthcheck", "")
		return status == http.StatusInternalServerError
	})
	redis.Resume(t)
	eventually(t, "checks are decided again", func() bool {
		status, _ := r.check(t, "/check", "203.0.113.10")
		return status == http.StatusOK
	})
}
