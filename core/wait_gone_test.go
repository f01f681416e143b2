package core

import (
	"context"
	"testing"
	"time"
)

// Who has given up is not asked for any more, even before having left the line.
func TestWhoGivesUpIsNotAskedFor(t *testing.T) {
	limit := FixedWindow(100, time.Hour)
	limiter := New(NewMemory())
	lines := &limiter.lines
	stand := func() (*line, *waiter) {
		w := &waiter{checks: []Check{{Key: "key", Limit: limit, Cost: 1}}, told: make(chan struct{}, 1)}
		l, _ := lines.join(w)
		return l, w
	}
	line, first := stand()
	_, second := stand()
	line.room = 10
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lines.arrived(ctx, line, second); err == nil {
		t.Fatal("a caller who has gone waits on")
	}
	group := lines.together(line)
	r, err := limiter.Reserve(t.Context(), asking(group)...)
	if err != nil {
		t.Fatal(err)
	}
	lines.admitAll(group, r)
	lines.leave(line, second)
	lines.leave(line, first)
	if d, err := limiter.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 99 {
		t.Errorf("%d are charged (%v), want 1", 100-d.Remaining, err)
	}
}
