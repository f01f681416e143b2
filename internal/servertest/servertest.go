// Package servertest starts nginx, Apache and Caddy, for tests of their logs, and these and other proxies, for tests of the fields by which they
// name clients.
package servertest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Program returns the path of a program, which make test installs: the first of the names that there is.
func Program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, place := range []string{name, "/usr/sbin/" + name} { // the PATH of a Debian user ends before that
			if path, err := exec.LookPath(place); err == nil {
				return path
			}
		}
	}
	Missing(t, "there is no "+strings.Join(names, " or "))
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
// which "{address}", "{port}" and "{dir}" are replaced by that address, its port and the directory, and each of fill by the text that follows it.
func Start(t *testing.T, dir, configuration string, command func(file string) *exec.Cmd, fill ...string) (address string) {
	t.Helper()
	port := FreePort(t)
	address = net.JoinHostPort("127.0.0.1", port)
	text := strings.NewReplacer(append(fill, "{dir}", dir, "{address}", address, "{port}", port)...).Replace(configuration)
	file := filepath.Join(dir, "server.conf")
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
