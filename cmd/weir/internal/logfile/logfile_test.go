package logfile_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

func gzipped(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

func zstandard(t *testing.T, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(text, nil)
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The content says how a file is compressed, whatever its name says, and parts that were joined are all read.
func TestCompressionByContent(t *testing.T) {
	text := []byte(strings.Repeat("a line of a log\n", 1000))
	for name, content := range map[string][]byte{
		"plain.gz": text, "gzip.log": gzipped(text), "zstd.gz": zstandard(t, text), "two.log": append(gzipped(text[:32]), gzipped(text[32:])...),
		"two.zst":     append(zstandard(t, text[:32]), zstandard(t, text[32:])...),
		"skipped.zst": append([]byte("\x50\x2a\x4d\x18\x02\x00\x00\x00hi"), zstandard(t, text)...),
	} {
		var read atomic.Int64
		f, err := logfile.Open(write(t, name, content), &read)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if read.Load() != int64(len(content)) {
			t.Errorf("%s: %d bytes were counted, not %d", name, read.Load(), len(content))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that was cut off is an error after what it still says, and an empty one is empty.
func TestCutOff(t *testing.T) {
	text := []byte(strings.Repeat("a line of a log\n", 100_000))
	compressed := gzipped(text)
	f, err := logfile.Open(write(t, "cut.gz", compressed[:len(compressed)/2]), new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	blocks := logfile.NewBlocks(f)
	lines := 0
	for {
		block, err := blocks.Next(nil)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the error is %v", err)
			}
			break
		}
		lines += bytes.Count(block, []byte("\n"))
	}
	if lines < 1000 {
		t.Errorf("%d lines were read", lines)
	}

	empty, err := logfile.Open(write(t, "empty", nil), new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := logfile.NewBlocks(empty).Next(nil); !errors.Is(err, io.EOF) {
		t.Errorf("an empty file: %v", err)
	}
}

// Blocks lose nothing, and end with lines, however the text comes.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text bytes.Buffer
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			text.WriteString(strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 100, 70_000, 300_000}).Draw(t, "length")))
			text.WriteByte('\n')
		}
		text.WriteString(rapid.SampledFrom([]string{"", "rest"}).Draw(t, "rest"))
		var r io.Reader = bytes.NewReader(text.Bytes())
		if rapid.Bool().Draw(t, "halves") {
			r = iotest.HalfReader(r)
		}
		blocks := logfile.NewBlocks(r)
		var got, space []byte
		for {
			block, err := blocks.Next(space)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, block...)
			if len(got) < text.Len() && got[len(got)-1] != '\n' {
				t.Fatal("a block ends within a line")
			}
			space = block
		}
		if !bytes.Equal(got, text.Bytes()) {
			t.Fatalf("%d bytes of %d", len(got), text.Len())
		}
	})
}

// A line that is too long is cut, and those around it are whole, wherever the reader pauses.
func TestLongLines(t *testing.T) {
	for _, length := range []int{logfile.Longest - 1, logfile.Longest, logfile.Longest + 1, logfile.Longest + 2, 3 << 20, 64<<20 + 5} {
		for _, end := range []string{"\n", "\nbehind\n", "\nbehind", ""} {
			text := io.MultiReader(strings.NewReader("before\n"), io.LimitReader(endless{}, int64(length)), strings.NewReader(end))
			blocks := logfile.NewBlocks(iotest.HalfReader(text))
			var lines []string
			for {
				block, err := blocks.Next(nil)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(block)) {
					lines = append(lines, strings.TrimSuffix(line, "\n"))
				}
				if cap(block) > 2*logfile.Longest {
					t.Fatalf("a block of %d bytes", cap(block))
				}
			}
			want := []string{"before", strings.Repeat("x", min(length, logfile.Longest+1))}
			if strings.Contains(end, "behind") {
				want = append(want, "behind")
			}
			if !slices.Equal(lines, want) {
				t.Errorf("%d bytes and %q: %d lines, want %d", length, end, len(lines), len(want))
			}
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestSpool(t *testing.T) {
	name, err := logfile.Spool(strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(name) }()
	if got, err := os.ReadFile(name); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := logfile.Spool(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that fails: %v", err)
	}
}
