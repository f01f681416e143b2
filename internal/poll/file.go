package poll

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// coarsest is the coarsest resolution of a file system's times. A file that has changed within
// that time may change again without a trace.
const coarsest = 2 * time.Second

// File reads a file when that has changed. It is used by one goroutine at a time.
type File struct {
	// Path is where the file is. A symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes.
	Path string
	// Most is how many bytes are read: a file that has more is an error. The default, 0, is any number.
	Most int64
	// Unchanged is for how long a file that has been read before must have been left alone to be read again. The default, 0, is
	// not at all.
	Unchanged time.Duration

	read bool        // whether it has been read
	last fs.FileInfo // of the last version understood; nil: there is none, or it may have changed since
}

// Read returns the text of the file, or nil if that has not changed since it was Understood. A file that is missing, no
// regular file, or changed while it is read is an error. The error does not name the file.
func (f *File) Read() (text []byte, info fs.FileInfo, err error) {
	text, info, err = f.readChanged()
	if of, names := errors.AsType[*fs.PathError](err); names {
		err = of.Err
	}
	return text, info, err
}

func (f *File) readChanged() (text []byte, info fs.FileInfo, err error) {
	info, err = os.Stat(f.Path)
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular(): // to open a pipe could take for ever
		return nil, nil, errors.New("is no regular file")
	case f.last != nil && unchanged(f.last, info):
		return nil, info, nil
	case f.Most > 0 && info.Size() > f.Most:
		return nil, nil, fmt.Errorf("has %d bytes, which are more than %d", info.Size(), f.Most)
	}
	if age := time.Since(info.ModTime()); f.read && 0 <= age && age < f.Unchanged {
		return nil, info, nil
	}
	text, info, err = readWhole(f.Path, f.Most)
	f.read = f.read || err == nil
	return text, info, err
}

// Understood says that the file need not be read again while it stays as it was.
func (f *File) Understood(info fs.FileInfo) {
	f.last = nil
	if time.Since(info.ModTime()) > coarsest {
		f.last = info
	}
}

// readWhole reads a file, most bytes of it at most, and returns an error if it has changed meanwhile.
func readWhole(path string, most int64) ([]byte, fs.FileInfo, error) {
	opened, err := os.Open(path) //nolint:gosec // the program says which file
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close() //nolint:errcheck // nothing was written
	before, err := opened.Stat()
	if err != nil {
		return nil, nil, err
	}
	var content io.Reader = opened
	if most > 0 {
		content = io.LimitReader(opened, most)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return nil, nil, err
	}
	after, err := opened.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !unchanged(before, after) || int64(len(text)) != after.Size() {
		return nil, nil, errors.New("has changed while it was read: write another file, and rename that")
	}
	return text, after, nil
}

// unchanged reports whether two looks at a file saw the same one, as it was.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
