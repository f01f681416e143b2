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
	"github.com/weir-go/ratelimit/internal/servertest"
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
		{`-trusted: "foo" is no address and no prefix`, []string{"-policies", "limits.yaml", "-trusted", "foo"}},
		{`-trusted: "10.0.0.1,10.0.0.2" is no address and no prefix: name each by itself`, []string{"-policies", "limits.yaml", "-trusted", "10.0.0.1,10.0.0.2"}},
		{`-trusted: "" is no address`, []string{"-policies", "limits.yaml", "-trusted", ""}},
		{`-trusted: "10.0.0.1/8" has bits behind its length: write 10.0.0.0/8`, []string{"-policies", "limits.yaml", "-trusted", "10.0.0.1/8"}},
		{`-trusted: "::/0" holds every address`, []string{"-policies", "limits.yaml", "-trusted", "::/0"}},
		{`-trusted: "::ffff:0.0.0.0/96" holds every address`, []string{"-policies", "limits.yaml", "-trusted", "::ffff:0.0.0.0/96"}},
		{"-replicas is at least 1", []string{"-policies", "limits.yaml", "-trusted", "10.0.0.0/8", "-replicas", "0"}},
		{"-replicas is for a file of policies", []string{"-replicas", "2"}},
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

// A file of one kind that is given to the flag of the other kind is told, and by which flag to name it.
func TestServeFilesOfTheOtherKind(t *testing.T) {
	dir := t.TempDir()
	of := make(map[string]string)
	for name, text := range map[string]string{
		"envoy.yaml": "domain: shop\n", "policies.yaml": "policies:\n  - limit: leaky 10, 1/s\n    key: ip\n", "wrong.yaml": "policies: 7\n",
	} {
		of[name] = filepath.Join(dir, name)
		if err := os.WriteFile(of[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{of["envoy.yaml"] + " is a file of limits for Envoy: name it by -config", []string{"-policies", of["envoy.yaml"], "-trusted", "10.0.0.0/8"}},
		{of["policies.yaml"] + " is a file of policies: name it by -policies", []string{"-config", of["policies.yaml"]}},
		{of["wrong.yaml"] + " is a file of policies: name it by -policies", []string{"-config", of["wrong.yaml"]}},
		{of["policies.yaml"] + " is a file of policies: name it by -policies", []string{"-config", dir}},
	} {
		code, _, messages := weir(t, "", append([]string{"serve", "-redis", "memory:", "-grpc", "127.0.0.1:0", "-http", "127.0.0.1:0", "-debug", "127.0.0.1:0"}, c.args...)...)
		if code != exitInvalid || !strings.Contains(messages, c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, messages)
		}
	}
}

// A store that no address names is a mistake of the command line or of the environment. No password is repeated.
func TestServeStoresThatMakeNoSense(t *testing.T) {
	config := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(config, []byte("domain: shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, kind, says string }{
		{"localhost", "", `"localhost" is no address of Redis: write its host and its port, such as localhost:6379`},
		{":6379", "", `":6379" is no address of Redis`},
		{"localhost:redis", "", `"localhost:redis" is no address of Redis`},
		{"a:1,b:1", "", "say which by REDIS_TYPE"},
		{"a:1,b", "CLUSTER", `"b" is no address of Redis`},
		{"main,a:1,b", "SENTINEL", `"b" is no address of Redis`},
		{"redis://me:secret@a:1", "CLUSTER", "give them by REDIS_AUTH"},
		{"http://a", "", "the settings of the store make no sense"},
	} {
		t.Setenv("REDIS_TYPE", c.kind)
		t.Setenv("REDIS_URL", c.url)
		code, _, messages := weir(t, "", "serve", "-config", config, "-grpc", "127.0.0.1:0", "-http", "127.0.0.1:0", "-debug", "127.0.0.1:0")
		if code != exitUsage || !strings.Contains(messages, c.says) || strings.Contains(messages, "secret") {
			t.Errorf("%s %q: exit code %d: %s", c.kind, c.url, code, messages)
		}
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
	limits, web := filepath.Join(t.TempDir(), "limits.yaml"), "127.0.0.1:"+servertest.FreePort(t)
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

// Limits come from files or from a control plane, and not from both.
func TestServeXDSFlags(t *testing.T) {
	for says, args := range map[string][]string{
		"exclude each other": {"-xds", "localhost:1", "-config", "limits.yaml"},
		"-xds is empty":      {"-xds", ""},
	} {
		if code, _, messages := weir(t, "", append([]string{"serve"}, args...)...); code != exitUsage || !strings.Contains(messages, says) {
			t.Errorf("%q: exit code %d: %s", args, code, messages)
		}
	}
}

// Envoy Gateway starts a program of this name, without arguments.
func TestServeUnderTheNameOfTheReference(t *testing.T) {
	for name, want := range map[string][]string{
		"/bin/ratelimit": {"/bin/ratelimit", "serve", "-over", "0.1"}, "/bin/weir": {"/bin/weir", "-over", "0.1"},
	} {
		if got := inPlace([]string{name, "-over", "0.1"}); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := inPlace(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
