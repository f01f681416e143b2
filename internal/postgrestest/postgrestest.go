//go:build unix

// Package postgrestest starts PostgreSQL, for the tests of modules that use one.
package postgrestest

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// patience is how long the server may take to begin: a busy machine is no reason to fail.
const patience = time.Minute

// Start starts a PostgreSQL server of the test's own, without durability, until the test ends. It returns the directory of its socket, for [URL]. The server
// may still refuse connections for a moment.
func Start(t *testing.T) (directory string) {
	t.Helper()
	initdb, ok := installed("initdb")
	if !ok {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no PostgreSQL: make postgres installs it")
		}
		t.Skip("there is no PostgreSQL: make postgres installs it")
	}
	temporary := "" // the system's
	if os.Getuid() == 0 {
		temporary = "/tmp" // where other users may go
	}
	directory, err := os.MkdirTemp(temporary, "pg") //nolint:usetesting // short, for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	as := asOther(t, directory)
	data := filepath.Join(directory, "data")
	initialize := exec.CommandContext( //nolint:gosec // it is PostgreSQL's own
		t.Context(), initdb, "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initialize.SysProcAttr, initialize.Dir = as, directory
	if output, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	run := exec.CommandContext( //nolint:gosec // so is this
		context.WithoutCancel(t.Context()), filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", directory,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200")
	run.SysProcAttr, run.Dir = as, directory
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt) // which ends connections
		_ = run.Wait()
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(directory, ".s.PGSQL.5432")); err == nil {
			return directory
		}
		if time.Now().After(deadline) {
			t.Fatal("PostgreSQL does not begin")
		}
	}
}

// URL returns the URL of a schema of the server with a socket in some directory.
func URL(directory, schema string) string {
	query := url.Values{"host": {directory}, "search_path": {schema}, "sslmode": {"disable"}}
	return "postgres://tests@/postgres?" + query.Encode()
}

// installed returns the path of a program of PostgreSQL's, which Debian does not put on the PATH.
func installed(program string) (path string, ok bool) {
	if path, err := exec.LookPath(program); err == nil {
		return path, true
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(found) == 0 {
		return "", false
	}
	return found[len(found)-1], true
}

// asOther returns how to run a program as another user, to whom a directory is given, where this one is root: PostgreSQL refuses to
// run as root.
func asOther(t *testing.T, directory string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		t.Skipf("PostgreSQL does not run as root: %v", err)
	}
	uid, _ := strconv.Atoi(other.Uid)
	gid, _ := strconv.Atoi(other.Gid)
	if err := os.Chown(directory, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
