package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The lines that go-redis would write to standard error go to the logger of the store that was made last and is open, and are not
// repeated. A logger that panics ends nothing.
func TestLinesOfTheClient(t *testing.T) {
	var logs [3]bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logs[2], nil)))
	defer slog.SetDefault(before)
	var stores [2]*Store
	for i := range stores {
		stores[i] = newStore(redis.NewClient(&redis.Options{Addr: "localhost:1"}), func(c *Config) {
			c.Owned = true
			c.Logger = func() *slog.Logger { return slog.New(slog.NewTextHandler(&logs[i], nil)) }
		})
	}
	write := func(format string) {
		for range 3 {
			lines{}.Printf(t.Context(), format, 7)
		}
	}
	write("of the second: %d")
	if err := stores[0].Close(); err != nil {
		t.Error(err)
	}
	write("still of the second: %d")
	if err := stores[1].Close(); err != nil {
		t.Error(err)
	}
	write("of nobody: %d")
	for i, want := range [][]string{nil, {"of the second: 7", "still of the second: 7"}, {"of nobody: 7"}} {
		if n := strings.Count(logs[i].String(), "\n"); n != len(want) {
			t.Errorf("%d: %d lines, want %d: %s", i, n, len(want), logs[i].String())
		}
		for _, line := range want {
			if !strings.Contains(logs[i].String(), `level=INFO msg="core: the redis client has logged a line" line="`+line+`"`) {
				t.Errorf("%d: %q is missing: %s", i, line, logs[i].String())
			}
		}
	}
	r := newStore(redis.NewClient(&redis.Options{Addr: "localhost:1"}), func(c *Config) {
		c.Owned, c.Logger = true, func() *slog.Logger { panic("logger") }
	})
	write("to a logger that panics")
	_ = r.Close()
}
