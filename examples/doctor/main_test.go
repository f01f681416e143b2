package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	if text, err := examine(); err != nil || !strings.Contains(text, "all of 9 algorithms") {
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

func TestDoctorFailsWhereWritesAreRefused(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	client := server.Client(t)
	for i := 0; ; i++ {
		if err := client.Set(t.Context(), strconv.Itoa(i), strings.Repeat("x", 10_000), 0).Err(); redis.HasErrorPrefix(err, "OOM") {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	if err := run(&text, server.URL(), time.Minute); err == nil || !strings.Contains(text.String(), "problem   memory") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestTheFlagWinsOverREDIS_URL(t *testing.T) {
	one, other := redistest.Start(t), redistest.Start(t)
	examined := func(args ...string) string {
		var text strings.Builder
		if err := command(&text, append(args, "-timeout", "1m")); err != nil {
			t.Errorf("%v\n%s", err, text.String())
		}
		return text.String()
	}
	t.Setenv("REDIS_URL", one.URL())
	if text := examined(); !strings.Contains(text, one.Addr()) {
		t.Errorf("without a flag:\n%s", text)
	}
	if text := examined("-redis", other.URL()); !strings.Contains(text, other.Addr()) || strings.Contains(text, one.Addr()) {
		t.Errorf("with a flag:\n%s", text)
	}
}

func TestHelpDoesNotTellREDIS_URL(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://user:secret@db.example:6379")
	var text strings.Builder
	if err := command(&text, []string{"-h"}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(text.String(), "REDIS_URL") || strings.Contains(text.String(), "secret") || strings.Contains(text.String(), "db.example") {
		t.Errorf("-h prints\n%s", text.String())
	}
	if err := command(&text, []string{"-nosuch"}); err == nil || strings.Contains(text.String(), "secret") {
		t.Errorf("%v\n%s", err, text.String())
	}
}
