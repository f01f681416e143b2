package policies

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/poll"
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// Source is where [Watch] reads policies from: [File], [Redis] or [Func], and [Signed] around one of them. Give each Watch its own.
type Source struct {
	name string // for errors
	// read reads once, and has the text put in force if that may be another one.
	read func(ctx context.Context, swap func(text []byte) error) error
	// serials are where the greatest serial number of a signed text is kept. Nil is in this process alone.
	serials *serials
}

// File is the source of the policies in a file. It looks at the file's time, size and identity, and reads it again if one has changed. A
// symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes, and a file may be renamed over the other, as
// editors do.
//
// Replace a file in one step, by a rename. A file that is written in place is read when it has not changed for a second,
// so that its first half is not taken for all of it; a program that pauses for longer is not noticed.
//
// A file that is missing, malformed, no regular file, larger than a mebibyte, or changed while it is read is an error.
func File(path string) Source {
	f := poll.File{Path: path, Unchanged: unchanged, Most: tree.Most}
	var last latest
	return Source{name: path, read: func(_ context.Context, swap func([]byte) error) error {
		text, info, err := f.Read()
		if err != nil || text == nil {
			return err
		}
		if err := last.swapIfOther(text, swap); err != nil {
			return err
		}
		f.Understood(info)
		return nil
	}}
}

// Redis is the source of the policies in a string of Redis, which "redis-cli -x SET key < limits.yaml" writes. It needs
// the permission for GETRANGE on the key, and nothing else unless it is [Signed]. It reads no more than a mebibyte. A key
// that does not exist is an error. Redis panics without a client and without a key.
//
// Each user of Redis who may write to the key sets the limits. Give that permission to few, since the limiter itself
// needs to write to its own keys alone; or believe nothing but [Signed] texts.
func Redis(client redis.Cmdable, key string) Source {
	switch {
	case client == nil:
		panic("policies: Redis: the client is nil")
	case key == "":
		panic("policies: Redis: the key is empty")
	}
	source := Func("redis key "+key, func(ctx context.Context) ([]byte, error) {
		text, err := client.GetRange(ctx, key, 0, tree.Most).Bytes() // one byte more than a document may have
		if err == nil && len(text) == 0 {
			return nil, errNoKey
		}
		return text, err
	})
	source.serials = &serials{client, key + ":serial"}
	return source
}

var errNoKey = errors.New("the key does not exist, or is empty: write the policies there")

// Func is the source of the policies that a function reads from where you keep them. The function returns the whole text,
// or nil without an error if the text is the same as last time. It returns when its context ends: until then nothing else
// is read. One goroutine calls it, one call at a time. name is the source's name in errors. A panic of read is an error
// of that reading; it ends the program only in the first reading of a [Watch] without Options.Start. Func panics if read is
// nil.
func Func(name string, read func(context.Context) ([]byte, error)) Source {
	if read == nil {
		panic("policies: Func: the function is nil")
	}
	var last latest
	return Source{name: name, read: func(ctx context.Context, swap func([]byte) error) error {
		text, err := read(ctx)
		if err != nil || text == nil {
			return err
		}
		return last.swapIfOther(text, swap)
	}}
}

// latest has the two latest texts of a source: the last one put in force, and the one that has failed since.
type latest struct{ inForce, failed text }

// text is one that is known.
type text struct {
	known bool
	sum   [sha256.Size]byte
	err   error // why it has failed
}

// swapIfOther has a text put in force if it is another one. One that has failed fails again without another look at it, unless that was for a
// reason that is [passing].
func (l *latest) swapIfOther(given []byte, swap func([]byte) error) error {
	sum := sha256.Sum256(given)
	if l.inForce.known && l.inForce.sum == sum {
		l.failed = text{}
		return nil
	}
	if l.failed.known && l.failed.sum == sum {
		return l.failed.err
	}
	err := swap(given)
	if _, again := errors.AsType[passing](err); err != nil && !again {
		l.failed = text{true, sum, err}
	} else {
		l.failed = text{}
	}
	if err == nil {
		l.inForce = text{true, sum, nil}
	}
	return err
}

// passing is an error that does not lie in the text, so that the same one may be put in force later.
type passing struct{ error }

func (e passing) Unwrap() error { return e.error }

// swapText puts the document of a text in force.
func (s *Set) swapText(text []byte) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	return s.swap(d)
}
