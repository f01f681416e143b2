package policies

import (
	"bytes"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/poll"
	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// Source is where [Watch] reads policies from: [File], [Redis] or [Func], and [Signed] around one of them. Give each Watch its own.
type Source struct {
	name string // for errors
	// read reads once, and has the text put in force if that may be another one.
	read func(ctx context.Context, put func(text []byte) error) error
}

// File is the source of the policies in a file. It looks at the file's time, size and identity, and reads it again if one has changed. A
// symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes, and a file may be renamed over the other, as
// editors do.
//
// Replace a file in one step, by a rename. A file that is written in place is read when nobody has written to it for a second, so that its
// first half is not taken for all of it; a program that pauses for longer is not noticed.
//
// A file that is missing, malformed, no regular file, larger than a mebibyte, or changed while it is read is an error.
func File(path string) Source {
	f := poll.File{Path: path, Settle: settle, Most: tree.Most}
	var last latest
	return Source{path, func(_ context.Context, put func([]byte) error) error {
		text, info, err := f.Read()
		if err != nil || text == nil {
			return err
		}
		if err := last.put(text, put); err != nil {
			return err
		}
		f.Understood(info)
		return nil
	}}
}

// Redis is the source of the policies in a string of Redis, which "redis-cli -x SET key < limits.yaml" writes. It needs the permission for
// GETRANGE on the key, and nothing else: it reads no more than a mebibyte. A key that does not exist is an error. Redis panics without a
// client and without a key.
//
// Who may write to the key says which limits hold. Give that permission to few, since the limiter itself needs to write to its own keys
// alone; or believe nothing but what is [Signed].
func Redis(client redis.StringCmdable, key string) Source {
	switch {
	case client == nil:
		panic("policies: Redis: the client is nil")
	case key == "":
		panic("policies: Redis: the key is empty")
	}
	return Func("redis key "+key, func(ctx context.Context) ([]byte, error) {
		text, err := client.GetRange(ctx, key, 0, tree.Most).Bytes() // one byte more than a document may have
		if err == nil && len(text) == 0 {
			return nil, errNoKey
		}
		return text, err
	})
}

var errNoKey = errors.New("the key does not exist, or is empty: write the policies there")

// Func is the source of the policies that a function reads from where you keep them. It returns the whole text, or nil without an error
// if that is what it has returned last, and ends with its context: until then nothing else is read. It is asked by one goroutine, once at
// a time. name is what errors call
// it. Func panics if read is nil.
func Func(name string, read func(context.Context) ([]byte, error)) Source {
	if read == nil {
		panic("policies: Func: the function is nil")
	}
	var last latest
	return Source{name, func(ctx context.Context, put func([]byte) error) error {
		text, err := read(ctx)
		if err != nil || text == nil {
			return err
		}
		return last.put(text, put)
	}}
}

// latest is the text of a source that was understood last, or nil.
type latest []byte

// put has a text put in force, if that is another one.
func (l *latest) put(text []byte, put func([]byte) error) error {
	if *l != nil && bytes.Equal(text, *l) {
		return nil
	}
	err := put(text)
	if err == nil {
		*l = bytes.Clone(text)
	}
	return err
}

// read puts in force what a text says.
func (s *Set) read(text []byte) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	return s.replace(d)
}
