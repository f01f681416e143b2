package lists_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/lists"
)

var (
	first  = netip.MustParseAddr("203.0.113.1")
	second = netip.MustParseAddr("203.0.113.2")
)

// expectRead wants a source to return a list of just these addresses of first and second.
func expectRead(t *testing.T, source lists.Source, hasFirst, hasSecond bool) {
	t.Helper()
	list, err := source(t.Context())
	switch {
	case err != nil:
		t.Fatal(err)
	case list == nil:
		t.Fatal("nothing has changed")
	case list.Has(first, "") != hasFirst || list.Has(second, "") != hasSecond:
		t.Fatalf("first %v, second %v, want %v, %v", list.Has(first, ""), list.Has(second, ""), hasFirst, hasSecond)
	}
}

// expectUnchanged wants a source to say that nothing has changed.
func expectUnchanged(t *testing.T, source lists.Source) {
	t.Helper()
	if list, err := source(t.Context()); list != nil || err != nil {
		t.Fatalf("list %v, error %v, want neither", list, err)
	}
}

// expectFailed wants a source to fail, with a reason that contains a text.
func expectFailed(t *testing.T, source lists.Source, reason string) {
	t.Helper()
	list, err := source(t.Context())
	if err == nil || list != nil || !strings.Contains(err.Error(), reason) {
		t.Fatalf("list %v, error %v, want one with %q", list, err, reason)
	}
}

// age makes a file look as if it had been written at some time.
func age(t *testing.T, path string, written time.Time) {
	t.Helper()
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsReadWhenItHasChanged(t *testing.T) {
	path, hourAgo := filepath.Join(t.TempDir(), "deny.txt"), time.Now().Add(-time.Hour).Truncate(time.Second)
	source := lists.File(path)
	write(t, path, "203.0.113.1\n")
	age(t, path, hourAgo)
	expectRead(t, source, true, false)
	expectUnchanged(t, source)
	expectUnchanged(t, source)

	age(t, path, hourAgo.Add(time.Second)) // the time has
	expectRead(t, source, true, false)
	expectUnchanged(t, source)

	write(t, path, "203.0.113.1\n203.0.113.2\n") // the size has
	age(t, path, hourAgo.Add(time.Second))
	expectRead(t, source, true, true)
	expectUnchanged(t, source)

	write(t, path, "203.0.113.2\n203.0.113.2\n") // it is another file of the same time and size
	age(t, path, hourAgo.Add(time.Second))
	expectRead(t, source, false, true)
	expectUnchanged(t, source)
}

// Within the resolution of its time, a file can change twice and look as if it had once.
func TestAFileThatHasJustChangedIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny.txt")
	source := lists.File(path)
	write(t, path, "203.0.113.1\n")
	now := time.Now()
	age(t, path, now)
	expectRead(t, source, true, false)
	if err := os.WriteFile(path, []byte("203.0.113.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, path, now)
	expectRead(t, source, false, true)
}

func TestAFileThatIsDeletedTruncatedOrHalfWrittenIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny.txt")
	source := lists.File(path)
	expectFailed(t, source, path+": no such file")
	write(t, path, "203.0.113.1\n")
	expectRead(t, source, true, false)

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := source(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	write(t, path, "")
	expectFailed(t, source, "write a comment into a list that is to be empty")
	expectFailed(t, source, "write a comment into a list that is to be empty")
	write(t, path, "203.0.113.2\n203.0.113.0/2") // of /24
	age(t, path, time.Now().Add(-time.Hour))
	expectFailed(t, source, "line 2")
	expectFailed(t, source, "line 2") // until it is well
	write(t, path, "203.0.113.2\n203.0.113.2/32")
	expectRead(t, source, false, true)
	write(t, path, "# nobody\n")
	expectRead(t, source, false, false)
}

// As Kubernetes replaces a ConfigMap: the file is a link to a link, which is replaced.
func TestALinkIsFollowed(t *testing.T) {
	directory := t.TempDir()
	for name, text := range map[string]string{"1": "203.0.113.1\n", "2": "203.0.113.2\n"} {
		if err := os.Mkdir(filepath.Join(directory, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(directory, name, "deny.txt"), text)
		age(t, filepath.Join(directory, name, "deny.txt"), time.Now().Add(-time.Hour).Truncate(time.Minute))
	}
	link := func(to, name string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, filepath.Join(directory, "new")), os.Rename(filepath.Join(directory, "new"), filepath.Join(directory, name))); err != nil {
			t.Fatal(err)
		}
	}
	link("1", "data")
	link("data/deny.txt", "deny.txt")
	source := lists.File(filepath.Join(directory, "deny.txt"))
	expectRead(t, source, true, false)
	expectUnchanged(t, source)
	link("2", "data")
	expectRead(t, source, false, true)
}

func TestADirectoryIsNoList(t *testing.T) {
	expectFailed(t, lists.File(t.TempDir()), "is no regular file")
}

// Somebody writes the file in place, over and over: what is read is one of
// its states, or an error.
func TestAFileThatIsWrittenInPlaceIsReadAsAWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny.txt")
	write(t, path, "203.0.113.1\n")
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			time.Sleep(200 * time.Microsecond)
			if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 20_000)+"\n203.0.113.1\n"), 0o600); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	source, whole, failed := lists.File(path), 0, 0
	for deadline := time.Now().Add(20 * time.Second); (whole < 10 || failed < 10) && time.Now().Before(deadline); {
		switch list, err := source(t.Context()); {
		case err != nil:
			failed++
		case list != nil:
			if whole++; !list.Has(first, "") {
				t.Error("a part of the file is in force")
			}
		}
	}
	stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if whole == 0 {
		t.Errorf("%d readings have failed, and none has not", failed)
	}
}
