package policies

import (
	"bytes"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/poll"
)

// Source is where [Watch] reads policies from: [File], [Redis] or [Func]. Give each Watch its own.
type Source struct {
	name string // for errors
	read func(context.Context, *Set) error
}

// File is the source of the policies in a file. It looks at the file's time, size and identity, and reads it again if one has changed. A
// symbolic link is followed, also where its target is replaced, as in a volume of Kubernetes, and a file may be renamed over the other, as
// editors do.
//
// Replace a file in one step, by a rename. A file that is written in place is read when nobody has written to it for a second, so that its
// first half is not taken for all of it; a program that pauses for longer is not noticed.
//
// A file that is missing, malformed, no regular file, or changed while it is read is an error.
func File(path string) Source {
	f := poll.File{Path: path, Settle: settle}
	return Source{path, func(_ context.Context, s *Set) error {
		text, info, err := f.Read()
		if err != nil || text == nil {
			return err
		}
		if err := s.read(text); err != nil {
			return err
		}
		f.Understood(info)
		return nil
	}}
}

// Redis is the source of the policies in a string of Redis, which weir or "redis-cli -x SET key < limits.yaml" writes. It needs the
// permission for GET on the key, and nothing else. A key that does not exist is an error. Redis panics without a client and without a key.
func Redis(client redis.StringCmdable, key string) Source {
	switch {
	case client == nil:
		panic("policies: Redis: the client is nil")
	case key == "":
		panic("policies: Redis: the key is empty")
	}
	return Func("redis key "+key, func(ctx context.Context) ([]byte, error) {
		text, err := client.Get(ctx, key).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil, errNoKey
		}
		return text, err
	})
}

var errNoKey = errors.New("the key does not exist: write the policies there")

// Func is the source of the policies that a function reads from where you keep them. It returns the whole text, or nil without an error
// if that is what it has returned last, and ends with its context. It is asked by one goroutine, once at a time. name is what errors call
// it. Func panics if read is nil.
func Func(name string, read func(context.Context) ([]byte, error)) Source {
	if read == nil {
		panic("policies: Func: the function is nil")
	}
	var last []byte // that was understood
	return Source{name, func(ctx context.Context, s *Set) error {
		text, err := read(ctx)
		if err != nil || text == nil || last != nil && bytes.Equal(text, last) {
			return err
		}
		if err := s.read(text); err != nil {
			return err
		}
		last = bytes.Clone(text)
		return nil
	}}
}

// read puts in force what a text says.
func (s *Set) read(text []byte) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	return s.replace(d)
}
