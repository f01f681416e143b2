package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// go-redis writes lines to the process's standard error, from goroutines that know no store. It has one logger for all clients of
// the process, and older versions of it read that variable without a lock: so it is set here, before anything runs. A program
// that calls redis.SetLogger by itself has the last word.
func init() { //nolint:gochecknoinits // see above
	redis.SetLogger(lines{})
}

// lines gives the lines of go-redis to the logger of the store that was made last and is open, or to slog.Default.
type lines struct{}

// loggerOfLines is the Logger of that store; nil: there is none.
var loggerOfLines atomic.Pointer[func() *slog.Logger]

// warningsOfLines are the warnings by the formats of the lines, which are constants of go-redis.
var warningsOfLines sync.Map

// Printf logs a line. Lines of one format are not repeated within ten seconds.
func (lines) Printf(ctx context.Context, format string, values ...any) {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	logger := slog.Default()
	if own := loggerOfLines.Load(); own != nil {
		logger = (*own)()
	}
	known, ok := warningsOfLines.Load(format)
	if !ok {
		known, _ = warningsOfLines.LoadOrStore(format, new(call.Warning))
	}
	own := known.(*call.Warning) //nolint:forcetypeassert // the map holds nothing else
	own.LogAt(ctx, slog.LevelInfo, logger, "core: the redis client has logged a line", slog.String("line", fmt.Sprintf(format, values...)))
}

// takeLines has the lines of go-redis logged by a store.
func (r *Store) takeLines() {
	logger := r.Logger // which keeps no store alive
	r.lines = &logger
	loggerOfLines.Store(r.lines)
}

// leaveLines ends that.
func (r *Store) leaveLines() { loggerOfLines.CompareAndSwap(r.lines, nil) }
