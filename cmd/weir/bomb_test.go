//go:build !race

// The logs are written by one goroutine and read by another program: make test runs it without the race detector.

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Whatever a log says, the program takes no more memory than it says that it takes. Each of these logs is a few hundred kilobytes on the disk.
func TestMemoryIsBoundedWhateverALogSays(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the resident set is measured in other units")
	}
	limits := policiesFile(t, "limits: {a: 'leaky 10, 1/s'}\npolicies: [{key: header X-Id, limit: a}]\n")
	longKeys := func(w io.Writer) {
		long := strings.Repeat("k", 900_000)
		for i := range 50 {
			_, _ = fmt.Fprintf(w, `{"ts":1790000000,"remote_addr":"192.0.2.1","status":200,"uri":"/","headers":{"X-Id":"%d%s"}}`+"\n", i, long)
		}
	}
	manyValues := func(w io.Writer) {
		_, _ = io.WriteString(w, `{"ts":1790000000,"remote_addr":"192.0.2.1","status":200,"headers":{"X-Id":"a"}}`+"\n")
		for range 20 {
			_, _ = fmt.Fprintf(w, `{"ts":1790000000,"remote_addr":"192.0.2.1","status":200,"headers":{"X-Id":"a"},"x":[%s1]}`+"\n", strings.Repeat("1,", 450_000))
		}
	}
	endlessLine := func(w io.Writer) {
		const good = `{"ts":1790000000,"remote_addr":"192.0.2.1","status":200,"headers":{"X-Id":"a"}}`
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 100 {
			_, _ = w.Write(chunk)
		}
		_, _ = io.WriteString(w, "\n"+good+"\n")
		for range 100 {
			_, _ = w.Write(chunk)
		}
	}
	weir := filepath.Join(t.TempDir(), "weir") // and not this program, whose memory and time are those of the race detector
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", weir, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	compressors := map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	}
	for name, compressor := range compressors {
		for _, bomb := range []struct {
			name  string
			write func(io.Writer)
			says  string
		}{{"long keys", longKeys, ""}, {"many values", manyValues, "4,096 commas"}, {"an endless line", endlessLine, "longer than 1 MiB"}} {
			log := filepath.Join(t.TempDir(), "access.log")
			f, err := os.Create(log)
			if err != nil {
				t.Fatal(err)
			}
			w := compressor(f)
			bomb.write(w)
			if err = w.Close(); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			for _, args := range [][]string{
				{"recommend", "-key", "header:X-Id", "-out", filepath.Join(t.TempDir(), "page.html"), log}, {"simulate", limits, log},
			} {
				program := exec.CommandContext(t.Context(), weir, args...)
				out, err := program.CombinedOutput()
				if (err != nil) != (bomb.says != "") || !strings.Contains(string(out), bomb.says) {
					t.Errorf("%s of %s in %s: %v: %.1000s", args[0], bomb.name, name, err, out)
				}
				const most = 1 << 20 // kilobytes
				usage, _ := program.ProcessState.SysUsage().(*syscall.Rusage)
				t.Logf("%s of %s in %s: %d MB", args[0], bomb.name, name, usage.Maxrss>>10)
				if usage.Maxrss > most {
					t.Errorf("%s of %s in %s took %d MB", args[0], bomb.name, name, usage.Maxrss>>10)
				}
			}
		}
	}
}
