package lists

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/ratelimit/internal/poll"
)

// errNoLine means that a file has not even an empty line: it has been truncated.
var errNoLine = errors.New("the file is empty: write a comment into a list that is to be empty")

// File is the source of the list in a file: see "Files" in the package documentation. It
// looks at the file's time, size and identity, and reads it again if one has changed. A
// symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes.
//
// A file that is missing, empty, malformed, no regular file, or changed while it is read
// is an error.
func File(path string) Source {
	f := poll.File{Path: path}
	return func(context.Context) (*List, error) {
		text, info, err := f.Read()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case text == nil:
			return nil, nil
		}
		l, lines, err := parse(bytes.NewReader(text))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case lines == 0:
			return nil, fmt.Errorf("%s: %w", path, errNoLine)
		}
		f.Understood(info)
		return l, nil
	}
}
