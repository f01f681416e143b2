package poll

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// panickingHandler is a handler that panics whenever it is asked.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { panic("a logger") }

// A reading that panics has failed, and the next one is made. A panic of who is told of it ends nothing.
func TestWhatPanicsIsReadAgain(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(panickingHandler{slog.DiscardHandler}))
	for name, tells := range map[string]bool{"OnError panics": true, "the logger panics": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := 0
				var told []error
				loop := Loop{Every: time.Second, Warning: "unread", Read: func(context.Context) error {
					if reads++; reads > 1 {
						panic("a source")
					}
					return nil
				}}
				if tells {
					loop.OnError = func(err error) { told = append(told, err); panic("a hook") }
				}
				ctx, cancel := context.WithCancel(t.Context())
				if err := loop.Start(ctx, false); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				cancel()
				synctest.Wait()
				if reads < 8 || tells && (len(told) != reads-1 || !strings.Contains(told[0].Error(), "a source")) {
					t.Errorf("read %d times, and told %v", reads, told)
				}
			})
		})
	}
	first := Loop{Read: func(context.Context) error { panic(errors.New("a source")) }}
	if err := first.Start(t.Context(), false); err == nil || !strings.Contains(err.Error(), "a source") {
		t.Errorf("%v, want the panic as an error", err)
	}
}
