// Package servertest starts nginx, Apache and Caddy, for tests of their logs, and these and other proxies, such as Envoy and Traefik, for tests of the fields by
// which they name clients, and of how they ask for limits.
package servertest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cached are the programs that no distribution has, and the versions that .ci/proxies installs into the user's cache.
var cached = map[string]string{"envoy": "1.40.0", "traefik": "3.7.15"}

// Program returns the path of a program, which make test installs: the first of the names that there is.
func Program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		places := []string{name, "/usr/sbin/" + name} // the PATH of a Debian user ends before that
		if cache, err := os.UserCacheDir(); err == nil && cached[name] != "" {
			places = append(places, filepath.Join(cache, "weir-test", name+"-"+cached[name], name))
		}
		for _, place := range places {
			if path, err := exec.LookPath(place); err == nil {
				return path
			}
		}
	}
	Missing(t, "there is no "+strings.Join(names, " or ")+": make test installs it")
	return ""
}

// Missing skips a test that lacks a server. In CI it fails.
func Missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// patience is how long a server may take for anything: a busy machine is no reason to fail.
const patience = 60 * time.Second

// FreePort returns a port that nobody listens on at any address, below those that systems give to connections: none takes it before the
// program listens.
func FreePort(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		var listener net.Listener
		if listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal(err)
	return ""
}

// Start starts a server until the test ends, and returns the address on which it answers. The command is given a file with the configuration, in
// which "{address}", "{port}" and "{dir}" are replaced by that address, its port and the directory, and each of fill by the text that follows it. The
// name of the file ends in .yaml, without which Envoy and Traefik do not read YAML. The others do not look at it.
func Start(t *testing.T, dir, configuration string, command func(file string) *exec.Cmd, fill ...string) (address string) {
	t.Helper()
	port := FreePort(t)
	address = net.JoinHostPort("127.0.0.1", port)
	text := strings.NewReplacer(append(fill, "{dir}", dir, "{address}", address, "{port}", port)...).Replace(configuration)
	file := filepath.Join(dir, "server.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(file)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = patience // its children may keep the output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the server has not ended when it was interrupted, and is killed")
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
		select {
		case <-ended:
			t.Fatalf("the server has ended: %v: %s", failed, output.String())
		default:
		}
		if time.Since(start) > patience {
			t.Fatal("the server does not answer")
		}
	}
}

// Traefik starts Traefik until the test ends, with the entry points of a configuration and the routers of another one, and returns the address on which
// it answers. In both, each of fill is replaced by the text that follows it, and in the entry points what Start replaces. A router has to lead from "/" to a
// server that does not answer with 404.
func Traefik(t *testing.T, entryPoints, routers string, fill ...string) (address string) {
	t.Helper()
	program, dir := Program(t, "traefik"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "routers.yaml"), []byte(strings.NewReplacer(fill...).Replace(routers)), 0o600); err != nil {
		t.Fatal(err)
	}
	address = Start(t, dir, `
global: {checkNewVersion: false}
providers: {file: {filename: "{dir}/routers.yaml"}, providersThrottleDuration: 10ms}
`+entryPoints, func(file string) *exec.Cmd { return exec.Command(program, "--configFile="+file) }, fill...)
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) { // it listens before it has read the routers
		if status(t, address) != http.StatusNotFound {
			return address
		}
		if time.Since(start) > patience {
			t.Fatal("Traefik does not know its routers")
		}
	}
}

// status returns that of the answer to a request for "/".
func status(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// Await waits until a log has the given number of lines, and returns it: a server writes its log after it has answered.
func Await(t *testing.T, name string, lines int) []byte {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(text, []byte("\n")) >= lines {
			return text
		}
		if time.Since(start) > patience {
			t.Fatalf("%s has less than %d lines: %d bytes", name, lines, len(text))
		}
	}
}
