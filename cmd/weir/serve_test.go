package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// The flags about policies say what is missing.
func TestServePoliciesNeedTrustedProxies(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"-trusted 10.0.0.0/8", []string{"-policies", "limits.yaml"}},
		{"name the file by -policies", []string{"-trusted", "10.0.0.0/8"}},
		{"-config is empty", []string{"-config", "", "-redis", "memory:"}},
		{"-config is empty", []string{"-config", "", "-policies", "limits.yaml", "-trusted", "10.0.0.0/8"}},
		{"-policies is empty", []string{"-policies", "", "-redis", "memory:"}},
		{"policies have an onError each", []string{"-policies", "limits.yaml", "-trusted", "10.0.0.0/8", "-on-error", "closed"}},
		{"policies have an onError each", []string{"-policies", "limits.yaml", "-trusted", "10.0.0.0/8", "-as-reference"}},
	} {
		if code, _, messages := weir(t, "", append([]string{"serve"}, c.args...)...); code != exitUsage || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, messages)
		}
	}
	t.Setenv("RUNTIME_ROOT", "") // an empty variable counts as none
	missing := filepath.Join(t.TempDir(), "limits.yaml")
	if code, _, messages := weir(t, "", "serve", "-policies", missing, "-trusted", "127.0.0.1", "-redis", "memory:", "-http", "127.0.0.1:0"); code != exitInvalid ||
		!strings.Contains(messages, missing) || strings.Contains(messages, "runtime_data") {
		t.Errorf("a missing file: exit code %d: %s", code, messages)
	}
	t.Setenv("RUNTIME_ROOT", filepath.Dir(missing))
	if code, _, messages := weir(t, "", "serve", "-redis", "memory:", "-http", "127.0.0.1:0"); code != exitInvalid || !strings.Contains(messages, "by -config") {
		t.Errorf("a missing directory: exit code %d: %s", code, messages)
	}
}

// The command of the page serves the file of the page, and ends well.
func TestServePoliciesAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/forward-auth.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	_, command, _ := strings.Cut(string(page), "```sh\nweir ")
	command, _, _ = strings.Cut(command, "\n```")
	limits, web := filepath.Join(t.TempDir(), "limits.yaml"), "127.0.0.1:"+freePort(t)
	if err := os.WriteFile(limits, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	command = strings.NewReplacer("limits.yaml", limits, "redis://localhost:6379", redistest.Start(t).URL(), "127.0.0.1:8080", web).Replace(command)
	weir := &served{http: web, args: append(strings.Fields(command)[1:], "-timeout", "1m", "-leave", "0s")}
	weir.start(t)
	t.Cleanup(weir.kill)
	var got []int
	for range 6 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+web+"/check", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Method": "POST", "Uri": "/login", "Host": "example.com", "For": "203.0.113.9"} {
			request.Header.Set("X-Forwarded-"+name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		got = append(got, response.StatusCode)
	}
	if want := []int{200, 200, 200, 200, 200, 429}; !slices.Equal(got, want) {
		t.Errorf("the logins are answered with %d, want %d", got, want)
	}
	_ = weir.command.Process.Signal(syscall.SIGTERM)
	if err := weir.command.Wait(); err != nil {
		t.Errorf("it has ended with %v", err)
	}
}
