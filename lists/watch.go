package lists

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/internal/poll"
)

// Source reads a list from where it is kept: [File], [Redis], or a function of your own. It returns the whole list, or
// nil without an error if the list is the same as last time. It returns when its context ends. [Watch] calls it on one
// goroutine, one call at a time. A Source may remember the last list, so give each Watch its own.
type Source func(ctx context.Context) (*List, error)

// WatchOptions say how [Watch] follows a source. The zero value is ready to use.
type WatchOptions struct {
	// Every is the time between the end of one reading and the beginning of the next, give
	// or take a tenth, so that the processes of a fleet do not all ask at once. A reading
	// that takes longer than Every, and than five seconds, has failed. The default, 0, is
	// five seconds; less panics.
	Every time.Duration

	// Start is in force until the source has been read for the first time. With it, Watch
	// returns no error when the source cannot be read at the start. The default is nil: it
	// does.
	Start *List

	// OnError is called with the error of each failed reading, after which the list stays as it was. It is called on the
	// goroutine that reads. The default, nil, logs to [slog.Default] at level warn when readings begin to fail, and when
	// the reason changes.
	OnError func(error)
}

// Watch reads a list from a source, and again every few seconds until ctx ends:
//
//	abusers, err := lists.Watch(ctx, lists.File("deny.txt"), lists.WatchOptions{})
//
// If a reading fails, the list stays as it was, for as long as that lasts, and OnError is called. A part of a list never
// comes into force: a list with one wrong entry has failed as a whole.
//
// Watch returns an error if the source cannot be read at the start, unless Start gives the first list. It panics if the
// source is nil. Its goroutine is the only one that asks the source, and ends with ctx, after which the list stays as it
// is.
func Watch(ctx context.Context, source Source, options WatchOptions) (*Live, error) {
	switch {
	case source == nil:
		panic("lists: Watch: the source is nil")
	case options.Every < 0:
		panic(fmt.Sprintf("lists: Watch: Every is %v, which is less than 0", options.Every))
	}
	live := new(Live)
	live.Swap(options.Start)
	loop := poll.Loop{
		Name:  "lists",
		Every: options.Every, OnError: options.OnError, Warning: "lists: a list could not be read, and stays as it was",
		Read: func(ctx context.Context) error {
			list, err := source(ctx)
			if err != nil {
				return fmt.Errorf("lists: %w", err)
			}
			if list != nil {
				live.Swap(list)
			}
			return nil
		},
	}
	if err := loop.Start(ctx, options.Start != nil); err != nil {
		return nil, err
	}
	return live, nil
}
