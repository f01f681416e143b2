package ratelimit

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// outageLog observes for those who do not: it logs that questions could not be
// answered, at first and then once in a while.
type outageLog struct {
	next atomic.Int64 // when it may log again, in Unix nanoseconds
}

// quiet is how long an outageLog is silent after it has said something.
const quiet = 10 * time.Second

func (l *outageLog) observe(event Event) {
	if event.Err == nil || event.Status == statusClientClosedRequest {
		return
	}
	now, next := time.Now().UnixNano(), l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(quiet)) {
		return
	}
	slog.WarnContext(event.Request.Context(), "ratelimit: a question could not be answered",
		slog.Any("error", event.Err), slog.Int("status", event.Status), slog.Bool("let_through", event.Status == 0))
}
