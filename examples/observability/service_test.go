package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// underLoad starts a service on a Redis of its own, which sends requests to itself until
// the test ends, and returns what serves its operators.
func underLoad(t *testing.T) (console *httptest.Server, store *redistest.Server) {
	t.Helper()
	store = redistest.Start(t)
	s, err := newService(store.URL(), core.WithBudget(time.Minute)) // however busy the machine is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	api := httptest.NewServer(s.api)
	t.Cleanup(api.Close)
	console = httptest.NewServer(s.console)
	t.Cleanup(console.Close)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(stop)
	group.Go(func() { s.load(ctx, api.URL, 300) })
	return console, store
}

// get returns what a GET is answered.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// poll tries until there is nothing to complain about.
func poll(t *testing.T, try func() (complaint string)) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		complaint := try()
		if complaint == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(complaint)
		}
	}
}

// program returns the path of one of Prometheus' programs. Without it the test is
// skipped, except in continuous integration.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed: make prometheus", name)
	default:
		t.Skipf("%s is not installed: make prometheus", name)
	}
	return ""
}

func TestOffendersAreServed(t *testing.T) {
	server, _ := underLoad(t)
	poll(t, func() string {
		if _, body := get(t, server.URL+"/offenders"); !strings.Contains(body, `"policy":"api"`) {
			return "no key was denied: " + body
		}
		return ""
	})
}

func TestTheDefaultStoreNeedsNoServer(t *testing.T) {
	s, err := newService("memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/items/1", nil))
	if w.Code != http.StatusOK || w.Header().Get("RateLimit") == "" {
		t.Errorf("answered %d with %v", w.Code, w.Header())
	}
	if _, err := newService("redis://user:secret@:port"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a malformed URL is %v, want an error without the password", err)
	}
}

// What the operators see is told to nobody else, and both servers end.
func TestTheOperatorsHaveAnAddressOfTheirOwn(t *testing.T) {
	s, err := newService("memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	public, private := freeAddress(t), freeAddress(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, public, private, 0) }()
	for _, c := range []struct {
		url  string
		want int
	}{
		{public + "/items/1", http.StatusOK},
		{private + "/metrics", http.StatusOK},
		{private + "/offenders", http.StatusOK},
		{public + "/metrics", http.StatusNotFound},
		{public + "/offenders", http.StatusNotFound},
		{private + "/items/1", http.StatusNotFound},
	} {
		poll(t, func() string {
			if status, body := get(t, "http://"+c.url); status != c.want {
				return fmt.Sprintf("%s is answered %d %s, want %d", c.url, status, body, c.want)
			}
			return ""
		})
	}
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServersWaitForNobody(t *testing.T) {
	if s := newServer(nil); s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 {
		t.Errorf("a server waits for ever: %+v", s)
	}
}

// The alert rules are right in Prometheus' own eyes, and go off when they should.
func TestAlertRules(t *testing.T) {
	promtool := program(t, "promtool")
	for _, arguments := range [][]string{
		{"check", "rules", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
		{"check", "config", "prometheus.yml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}
