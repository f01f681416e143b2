package conformance

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var all = flag.Bool("all", false, "run the whole conformance suite, and not a part of it")

const suite = "connectrpc.com/conformance"

// A server with the interceptor conforms to the three protocols, while no limit is reached.
func TestServersConform(t *testing.T) {
	runner, server := build(t, "connectconformance"), build(t, "referenceserver", "-modfile", limited(t))
	if output, err := run(t, runner, server, "fixed-window 1, 1h", "--run", few); err == nil {
		t.Fatalf("the reference server has no limits, or the suite fails nothing:\n%s", output)
	}
	var part []string
	if !*all {
		part = []string{"--run", few}
	}
	output, err := run(t, runner, server, "fixed-window 1000000000, 1h", part...)
	if err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	t.Log(strings.TrimSpace(output))
}

// few are the cases that are run by default: those in Protocol Buffers, without compression and without TLS.
const few = "**/Codec:CODEC_PROTO/Compression:COMPRESSION_IDENTITY/TLS:false/**"

// run runs the suite against a server under a limit.
func run(t *testing.T, runner, server, limit string, part ...string) (output string, err error) {
	t.Helper()
	arguments := append([]string{"--mode", "server", "--conf", filepath.Join("testdata", "features.yaml")}, part...)
	cmd := exec.CommandContext(t.Context(), runner, append(arguments, "--", server)...)
	cmd.Env = append(os.Environ(), "CONFORMANCE_LIMIT="+limit)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// limited returns a go.mod with which the go command finds the reference server with the interceptor in it.
func limited(t *testing.T) string {
	t.Helper()
	temporary := t.TempDir()
	module := filepath.Join(temporary, "conformance")
	if err := os.CopyFS(module, os.DirFS(output(t, "list", "-m", "-f", "{{.Dir}}", suite))); err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(module, "internal", "app", "referenceserver", "server.go")
	const without, with = "[]connect.Interceptor{serverName", "[]connect.Interceptor{limits(), serverName"
	source := read(t, server)
	if strings.Count(source, without) != 1 {
		t.Fatal("the reference server has no such interceptors")
	}
	if err := os.Remove(server); err != nil { // which may not be written to
		t.Fatal(err)
	}
	write(t, server, strings.Replace(source, without, with, 1))
	write(t, filepath.Join(filepath.Dir(server), "limits.go"), read(t, filepath.Join("testdata", "limits.go")))
	write(t, filepath.Join(temporary, "go.mod"), read(t, "go.mod")+"\nreplace "+suite+" => "+module+"\n")
	write(t, filepath.Join(temporary, "go.sum"), read(t, "go.sum"))
	return filepath.Join(temporary, "go.mod")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// build builds a program of the suite.
func build(t *testing.T, program string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program)
	output(t, append(append([]string{"build", "-o", file}, flags...), suite+"/cmd/"+program)...)
	return file
}

// output runs the go command, and returns its output.
func output(t *testing.T, arguments ...string) string {
	t.Helper()
	text, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, text)
	}
	return strings.TrimSpace(string(text))
}
