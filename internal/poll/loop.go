// Package poll reads again and again what may have changed: files, and whatever a function reads.
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
	// Every is the time between the end of one reading and the beginning of the next, give or take a tenth. The default, 0,
	// is five seconds.
	Every time.Duration
	// Read reads once. Its context ends after Every, or five seconds if that is longer.
	Read func(ctx context.Context) error
	// OnError is told of each reading that has failed. The default, nil, logs Warning to [slog.Default] when readings begin to
	// fail, and when the reason changes.
	OnError func(error)
	Warning string

	logged string // the error of the last reading, if it was logged
}

// Start reads once, and then goes on in a goroutine until ctx ends. If the first reading fails, Start returns its error and does not go
// on. If begun says that there is a value to begin with, the error is told instead, as that of each later reading is.
func (l *Loop) Start(ctx context.Context, begun bool) error {
	if err := l.once(ctx); err != nil {
		if !begun {
			return err
		}
		l.tell(err)
	}
	go l.run(ctx)
	return nil
}

// once reads once.
func (l *Loop) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.every(), leastPatience))
	defer cancel()
	err := l.read(ctx)
	if err == nil {
		l.logged = ""
	}
	return err
}

// read calls Read. A panic of it is an error of this reading: the goroutine is nobody else's, and the next one may do better.
func (l *Loop) read(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("reading has panicked: %v", cause)
		}
	}()
	return l.Read(ctx)
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
		if err := l.once(ctx); err != nil && ctx.Err() == nil {
			l.tell(err)
		}
		timer.Reset(l.pause())
	}
}

// tell tells of a reading that has failed. A panic of OnError is logged, and that of a logger is contained: the readings
// go on.
func (l *Loop) tell(err error) {
	defer func() {
		if cause := recover(); cause != nil {
			defer func() { _ = recover() }() // it may be the logger itself
			slog.Default().Error(l.Warning+", and OnError panicked", slog.Any("error", err), slog.Any("panic", cause))
		}
	}()
	if l.OnError != nil {
		l.OnError(err)
		return
	}
	if text := err.Error(); text != l.logged {
		l.logged = text
		slog.Default().Warn(l.Warning, slog.Any("error", err))
	}
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
