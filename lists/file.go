package lists

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// coarsest is the coarsest resolution of a file system's times. What has changed within
// that time may change again without a trace.
const coarsest = 2 * time.Second

// errNoLine means that a file has not even an empty line: it has been truncated.
var errNoLine = errors.New("the file is empty: write a comment into a list that is to be empty")

// File is the source of the list in a file: see "Files" in the package documentation. It
// looks at the file's time, size and identity, and reads it again if one has changed. A
// symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes.
//
// A file that is missing, empty, malformed, no regular file, or changed while it is read
// is an error.
func File(path string) Source {
	f := &file{path: path}
	return f.read
}

// file reads a list from a file when that has changed.
type file struct {
	path string
	last fs.FileInfo // of what was read; nil: nothing, or it may have changed since
}

func (f *file) read(context.Context) (*List, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // to open a pipe could take for ever
		return nil, fmt.Errorf("%s: is no regular file", f.path)
	case f.last != nil && unchanged(f.last, info):
		return nil, nil //nolint:nilnil // a Source says so that nothing has changed
	}
	text, info, err := readWhole(f.path)
	if err != nil {
		return nil, err
	}
	l, lines, err := parse(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.path, err)
	case lines == 0:
		return nil, fmt.Errorf("%s: %w", f.path, errNoLine)
	}
	f.last = nil
	if time.Since(info.ModTime()) > coarsest {
		f.last = info
	}
	return l, nil
}

// readWhole reads a file, and returns an error if it has changed meanwhile.
func readWhole(path string) ([]byte, fs.FileInfo, error) {
	opened, err := os.Open(path) //nolint:gosec // the program says which file
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close() //nolint:errcheck // nothing was written
	before, err := opened.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(opened)
	if err != nil {
		return nil, nil, err
	}
	after, err := opened.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !unchanged(before, after) || int64(len(text)) != after.Size() {
		return nil, nil, fmt.Errorf("%s: has changed while it was read: write another file, and rename that", path)
	}
	return text, after, nil
}

// unchanged reports whether two looks at a file saw the same one, as it was.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
