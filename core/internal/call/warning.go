package call

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// quiet is for how long a warning is not repeated.
const quiet = 10 * time.Second

// Warning is a warning that every call may have reason for while something is wrong. It is
// logged at first, and then once in a while. The zero value is ready to use.
type Warning struct {
	next     atomic.Int64 // when it may be logged again, in Unix nanoseconds
	unlogged atomic.Int64 // how often it was not since it was last
}

// Log logs the warning, unless it was logged a short while ago. A panic of the logger is contained: the work that had
// reason to warn goes on, on any goroutine.
func (w *Warning) Log(logger *slog.Logger, message string, attributes ...any) {
	w.LogAt(context.Background(), slog.LevelWarn, logger, message, attributes...)
}

// LogAt is Log at a level.
func (w *Warning) LogAt(ctx context.Context, level slog.Level, logger *slog.Logger, message string, attributes ...any) {
	now, next := time.Now().UnixNano(), w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(quiet)) {
		w.unlogged.Add(1)
		return
	}
	defer func() { _ = recover() }() // there is nowhere left to tell it
	logger.Log(ctx, level, message, append(attributes, slog.Int64("unlogged", w.unlogged.Swap(0)))...)
}
