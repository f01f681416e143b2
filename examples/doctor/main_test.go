package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// The doctor is content with a server that can keep limits, and not with one that may
// throw them away.
func TestRun(t *testing.T) {
	server := redistest.Start(t)
	examine := func() (string, error) {
		var text strings.Builder
		err := run(&text, server.URL(), time.Minute)
		return text.String(), err
	}
	if text, err := examine(); err != nil || !strings.Contains(text, "all of 7 algorithms") {
		t.Errorf("%v\n%s", err, text)
	}
	for name, value := range map[string]string{"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"} {
		if err := server.Client(t).ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := examine(); err == nil || !strings.Contains(text, "problem   memory") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := run(&strings.Builder{}, "http://localhost", time.Minute); err == nil {
		t.Error("a URL that names no store is no error")
	}
}
