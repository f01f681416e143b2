package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

const often = 5 * time.Millisecond

// told collects what WithOnError is told.
type told struct {
	mu   sync.Mutex
	last error
}

func (t *told) tell(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = err
}

func (t *told) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		return ""
	}
	return t.last.Error()
}

// capacity returns the numbers of the set, as numbered has written them.
func capacity(s *Set) int { return s.Document().Limits["a"].Capacity() }

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(often) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 seconds", what)
		}
	}
}

// write writes a file as it was a minute ago, so that nothing waits for it to settle.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, path)
}

func age(t *testing.T, path string) {
	t.Helper()
	before := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
}

// Files are followed as editors rename and as Kubernetes swaps links. What makes no sense is told and changes nothing.
func TestFileIsFollowed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	for n := 1; n <= 3; n++ {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("..v", n)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, fmt.Sprint("..v", n), "limits.yaml"), numbered(n))
	}
	link := func(target, name string) { // as the kubelet does
		if err := os.Symlink(target, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v1", "..data")
	link("..data/limits.yaml", "limits.yaml")
	path := filepath.Join(dir, "limits.yaml")

	var errs told
	s, err := Watch(ctx, File(path), Options{Every: often, OnError: errs.tell})
	if err != nil {
		t.Fatal(err)
	}
	if capacity(s) != 1 {
		t.Fatalf("capacity %d", capacity(s))
	}
	link("..v2", "..data")
	eventually(t, "the link is swapped", func() bool { return capacity(s) == 2 })

	write(t, filepath.Join(dir, "..v3", "limits.yaml"), "limits:\n  a: leaky 3\n")
	link("..v3", "..data")
	eventually(t, "an error is told", func() bool {
		return strings.Contains(errs.text(), `policies: `+path+`: line 2, column 6: limit "leaky 3"`)
	})
	if capacity(s) != 2 {
		t.Errorf("capacity %d after an invalid file", capacity(s))
	}
	saved := filepath.Join(dir, "limits.yaml~") // as an editor does
	write(t, saved, numbered(4))
	if err := os.Rename(saved, path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is renamed", func() bool { return capacity(s) == 4 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is missing", func() bool { return strings.Contains(errs.text(), "policies: "+path+": no such file") })
	for what, text := range map[string]string{
		"is empty": "",
		"policies: " + path + ": has 1048577 bytes,": strings.Repeat("#", tree.Most+1),
		"is no UTF-8": "limits: {} # \xe9",
	} {
		write(t, path, text)
		eventually(t, "the file "+what, func() bool { return strings.Contains(errs.text(), what) })
	}
	if capacity(s) != 4 {
		t.Errorf("capacity %d after the file is gone", capacity(s))
	}
	write(t, path, numbered(5))
	eventually(t, "the file is back", func() bool { return capacity(s) == 5 })
}

// A file that has just been written is read when the program starts.
func TestNewFileIsReadAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(numbered(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Watch(ctx, File(path), Options{})
	if err != nil || s.Document() == nil {
		t.Errorf("%v, %v", s, err)
	}
}

// A file that looks as if it may have changed without a trace is read again, and put in force once.
func TestFileOfTheFutureIsPutInForceOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, numbered(1))
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, future, future); err != nil {
		t.Fatal(err)
	}
	source, s := File(path), new(Set)
	var first *Document
	for range 3 {
		if err := source.read(t.Context(), s.swapText); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s.Document()
		}
		if s.Document() != first {
			t.Fatal("it is put in force again")
		}
	}
}

// The first half of a file is never taken for all of it, also where it makes sense by itself.
func TestHalfOfAFileIsNotRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, numbered(1))
	s, err := Watch(ctx, File(path), Options{Every: often})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(numbered(2), "\n")
	for _, part := range lines {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * often)
		if n := len(s.Document().Policies); n != 2 {
			t.Fatalf("%d policies while the file is written", n)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is whole", func() bool { return capacity(s) == 2 })
}

func TestRedisIsFollowed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client, key := redistest.Shared(t).Client(t), redistest.Prefix(t)+"policies"
	if _, err := Watch(ctx, Redis(client, key), Options{}); err == nil || err.Error() != "policies: redis key "+key+": the key does not exist, or is empty: write the policies there" {
		t.Errorf("%v", err)
	}
	set := func(client redis.UniversalClient, text string) {
		if err := client.Set(ctx, key, text, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(client, numbered(1))
	var errs told
	s, err := Watch(ctx, Redis(client, key), Options{Every: often, OnError: errs.tell})
	if err != nil {
		t.Fatal(err)
	}
	set(client, numbered(2))
	eventually(t, "the key is set", func() bool { return capacity(s) == 2 })
	set(client, numbered(0))
	eventually(t, "an error is told", func() bool { return strings.Contains(errs.text(), "line 1, column ") })
	long := numbered(3) + strings.Repeat("#\n", tree.Most/2)
	set(client, long)
	eventually(t, "a long value is told", func() bool {
		return strings.HasSuffix(errs.text(), "line 1, column 1: the document has 1048577 bytes, which are more than 1048576")
	})
	if err := client.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is missing", func() bool { return strings.Contains(errs.text(), "does not exist") })
	if err := client.RPush(ctx, key, "x").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is a list", func() bool { return strings.Contains(errs.text(), "WRONGTYPE") })
	if capacity(s) != 2 {
		t.Errorf("capacity %d", capacity(s))
	}
	if err := client.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	set(client, numbered(4))
	eventually(t, "the key is back", func() bool { return capacity(s) == 4 })
}

// What a Func returns again is not compiled again.
func TestFuncIsComparedWithTheLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	text := []byte(numbered(1))
	var mu sync.Mutex
	asked := 0
	s, err := Watch(ctx, Func("here", func(context.Context) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return bytes.Clone(text), nil
	}), Options{Every: often})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Document()
	eventually(t, "it is asked", func() bool { mu.Lock(); defer mu.Unlock(); return asked > 5 })
	if s.Document() != first {
		t.Error("the document is replaced by the same one")
	}
	cancel()
}

func TestEveryOfZeroIsTheDefault(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int64
		_, err := Watch(ctx, Func("here", func(context.Context) ([]byte, error) {
			asked.Add(1)
			return []byte(numbered(1)), nil
		}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			pass time.Duration
			want int64
		}{{4400 * time.Millisecond, 1}, {1200 * time.Millisecond, 2}} {
			time.Sleep(step.pass)
			synctest.Wait()
			if got := asked.Load(); got != step.want {
				t.Errorf("asked %d times after another %v, want %d", got, step.pass, step.want)
			}
		}
		cancel()
	})
}

func TestMisusePanics(t *testing.T) {
	for name, misuse := range map[string]func(){
		"no source":   func() { _, _ = Watch(t.Context(), Source{}, Options{}) },
		"no client":   func() { Redis(nil, "a") },
		"no function": func() { Func("a", nil) },
		"no key":      func() { _, _ = new(Document).Set(Options{Keys: map[string]keyfuncs.Func{"a": nil}}) },
		"no name":     func() { _, _ = new(Document).Set(Options{Keys: map[string]keyfuncs.Func{"a b": keyfuncs.Global}}) },
		"no time":     func() { _, _ = new(Document).Set(Options{Every: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
}

var errDown = errors.New("down")

func TestFunc(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	down := Func("etcd", func(context.Context) ([]byte, error) { return nil, errDown })
	if _, err := Watch(ctx, down, Options{}); !errors.Is(err, errDown) || err.Error() != "policies: etcd: down" {
		t.Errorf("%v", err)
	}
	d, err := Parse([]byte(numbered(3)))
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	s, err := Watch(ctx, down, Options{Start: d, OnError: func(err error) { told = append(told, err) }})
	if err != nil || len(told) != 1 || s.Document() != d {
		t.Errorf("%v, told %v", err, told)
	}
	if _, err := Watch(ctx, down, Options{Start: &Document{Policies: []Policy{{Limit: "x"}}}}); err == nil || strings.Contains(err.Error(), "down") {
		t.Errorf("%v, want what is wrong with the document", err)
	}
}
