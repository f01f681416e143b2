package serving

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
)

const (
	// mostOfFile is how many bytes of a file are read, and mostFiles how many files there may be.
	mostOfFile = 16 << 20
	mostFiles  = 10_000
)

// version tells one content of the files from another.
type version [sha256.Size]byte

// readFiles reads a file, or the files of a directory and of those below it, in the order of their names.
func readFiles(path string, hidden bool) (files []descriptors.File, seen version, err error) {
	hash := sha256.New()
	add := func(name string) error {
		info, err := os.Stat(name)
		if err != nil || info.IsDir() {
			return err
		}
		if len(files) == mostFiles {
			return fmt.Errorf("%s has more than %d files", path, mostFiles)
		}
		text, err := readBounded(name)
		if err != nil {
			return err
		}
		files = append(files, descriptors.File{Name: name, Text: text})
		_, _ = fmt.Fprintf(hash, "%d:%s%d:", len(name), name, len(text))
		_, _ = hash.Write(text)
		return nil
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, seen, err
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		// A volume of Kubernetes has its files twice: those that begin with two dots are how it exchanges them.
		if name != root && (strings.HasPrefix(base, "..") || !hidden && strings.HasPrefix(base, ".")) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return add(name)
	})
	if err != nil {
		return nil, seen, err
	}
	return files, version(hash.Sum(nil)), nil
}

// readBounded reads a file of no more than mostOfFile bytes. A device or a pipe does not tell its size.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the user says which file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, mostOfFile+1))
	if err == nil && len(text) > mostOfFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, mostOfFile)
	}
	return text, err
}

// Read returns the configuration that the service would start with.
func (s *Settings) Read() (*descriptors.Config, error) {
	config, _, err := s.load()
	return config, err
}

// load reads the configuration.
func (s *Settings) load() (*descriptors.Config, version, error) {
	files, seen, err := readFiles(s.Config, s.HiddenFiles)
	if err != nil {
		return nil, seen, err
	}
	config, err := descriptors.Parse(files, descriptors.Options{Merge: s.Merge})
	if err != nil {
		for _, one := range files {
			if descriptors.RecognizePolicies(one.Text) {
				err = fmt.Errorf("%s is a file of policies: name it by -policies", one.Name)
				break
			}
		}
	}
	return config, seen, err
}

// lines returns an error as those that it consists of.
func lines(err error) []string {
	if all, is := errors.AsType[descriptors.Errors](err); is {
		texts := make([]string, len(all))
		for i, one := range all {
			texts[i] = one.Error()
		}
		return texts
	}
	return []string{err.Error()}
}
