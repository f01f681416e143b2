package guard

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// eventLog logs unusual requests, for [Options.Logger]. It never names a key, an address or the
// target of a request.
type eventLog struct {
	logger   *slog.Logger // nil: the default one of that time
	next     atomic.Int64 // when it may warn again, in Unix nanoseconds
	unlogged atomic.Int64 // warnings left out since the last one
}

// quiet is how long an eventLog does not warn after it has.
const quiet = 10 * time.Second

// event logs an event if it is unusual. A panic of the logger is contained: the request goes on.
func (l *eventLog) event(e *Event) {
	defer func() { _ = recover() }() // there is nowhere left to tell it
	if e.Err != nil || e.Status == http.StatusTooManyRequests || e.Status == http.StatusForbidden {
		l.unusual(e)
	}
}

func (l *eventLog) unusual(e *Event) {
	ctx, logger := e.Request.Context(), l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if e.Degraded() || e.Settled && e.Err != nil {
		l.warn(ctx, logger, e)
	}
	if e.Listed {
		logger.LogAttrs(ctx, slog.LevelDebug, "ratelimit: a request is denied by a list")
		return
	}
	if e.Settled || e.Status != http.StatusTooManyRequests && !e.Banned() || !logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	var policies []string
	var wait time.Duration
	for i := range e.Outcomes {
		if o := &e.Outcomes[i]; o.Denies() {
			policies, wait = append(policies, o.Policy), max(wait, o.Decision.RetryAfter)
		}
	}
	attributes := []slog.Attr{slog.Any("policies", policies), slog.Bool("degraded", e.Degraded())}
	if wait != core.Never {
		attributes = append(attributes, slog.Duration("retry_after", wait))
	}
	message := "ratelimit: a request is denied"
	if e.Banned() {
		message += " by a ban"
	}
	logger.LogAttrs(ctx, slog.LevelDebug, message, attributes...)
}

// warn logs that the store has failed, at first and then once in a while.
func (l *eventLog) warn(ctx context.Context, logger *slog.Logger, e *Event) {
	now, next := time.Now().UnixNano(), l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(quiet)) {
		l.unlogged.Add(1)
		return
	}
	message := "ratelimit: a call could not be answered"
	if e.Settled {
		message = "ratelimit: the cost of a request could not be settled"
	}
	attributes := []slog.Attr{
		slog.String("failure", string(core.FailureOf(e.Err))), slog.Any("error", e.Err), slog.Int64("unlogged", l.unlogged.Swap(0)),
	}
	if !e.Settled {
		attributes = append(attributes, slog.Int("status", e.Status), slog.Bool("let_through", e.Status == 0))
	}
	logger.LogAttrs(ctx, slog.LevelWarn, message, attributes...)
}

// panicked logs that a Settle function, or the observer, has panicked on a goroutine of the
// limiter's.
func (l *eventLog) panicked(ctx context.Context, reason any) {
	defer func() { _ = recover() }() // there is nowhere left to tell it
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelError, "ratelimit: settling the cost of a request has panicked",
		slog.Any("panic", reason), slog.String("stack", string(debug.Stack())))
}
