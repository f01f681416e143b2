// Package poll reads files, and other sources by a function, again and again to notice changes.
package poll

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	defaultEvery = 5 * time.Second
	// leastPatience is for how long one reading may take, however often it is done.
	leastPatience = 5 * time.Second
)

// Loop reads something every few seconds. It is started once.
type Loop struct {
	// Name is the first word of messages about a panic.
	Name string
	// Every is the time between the end of one reading and the beginning of the next, give or take a tenth. The default, 0,
	// is five seconds.
	Every time.Duration
	// Read reads once. Its context ends after Every, or five seconds if that is longer. A panic of it is an error of that reading; it
	// ends the program only where Start begins with nothing.
	Read func(ctx context.Context) error
	// OnError is told of each reading that has failed. The default, nil, logs Warning to Logger when readings begin to fail, and when
	// the reason changes. A panic of it is logged.
	OnError func(error)
	Warning string
	// Logger is where the loop logs. The default, nil, is [slog.Default] at the time of the report.
	Logger *slog.Logger

	logged string // the error of the last reading, if it was logged
}

// Start reads once, and then goes on in a goroutine until ctx ends. If the first reading fails, Start returns its error and does not go
// on. If begun says that there is a value to begin with, the error is told instead, as that of each later reading is.
func (l *Loop) Start(ctx context.Context, begun bool) error {
	read := l.Read
	if begun {
		read = l.contained
	}
	if err := l.once(ctx, read); err != nil {
		if !begun {
			return err
		}
		l.tell(err)
	}
	go l.run(ctx)
	return nil
}

// contained reads, and makes an error of a panic.
func (l *Loop) contained(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: the reading panicked: %v", l.Name, cause)
		}
	}()
	return l.Read(ctx)
}

// once reads once.
func (l *Loop) once(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.every(), leastPatience))
	defer cancel()
	err := read(ctx)
	if err == nil {
		l.logged = ""
	}
	return err
}

// run reads until ctx ends.
func (l *Loop) run(ctx context.Context) {
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := l.once(ctx, l.contained); err != nil && ctx.Err() == nil {
			l.tell(err)
		}
		timer.Reset(l.pause())
	}
}

// tell tells of a reading that has failed.
func (l *Loop) tell(err error) {
	if l.OnError != nil {
		l.Call("the function that is told of errors", func() { l.OnError(err) })
		return
	}
	if text := err.Error(); text != l.logged {
		l.logged = text
		l.Call("the logger", func() { l.logger().Warn(l.Warning, slog.Any("error", err)) })
	}
}

// Call calls a function of the program, and logs a panic of it under the given name.
func (l *Loop) Call(name string, f func()) {
	defer func() {
		if cause := recover(); cause != nil {
			defer func() { _ = recover() }() // it may be the logger itself
			l.logger().Error(fmt.Sprintf("%s: %s panicked", l.Name, name), slog.Any("panic", cause))
		}
	}()
	f()
}

func (l *Loop) logger() *slog.Logger {
	if l.Logger == nil {
		return slog.Default()
	}
	return l.Logger
}

func (l *Loop) every() time.Duration {
	if l.Every == 0 {
		return defaultEvery
	}
	return l.Every
}

// pause returns how long to wait until the next reading.
func (l *Loop) pause() time.Duration {
	return time.Duration(float64(l.every()) * (0.9 + 0.2*rand.Float64()))
}
