package core_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestOpen(t *testing.T) {
	for url, problem := range map[string]string{
		"memory:":                         "",
		"redis://localhost:6379":          "",
		"redis://localhost":               "",
		"redis://user:secret@localhost/3": "",
		"rediss://:secret@localhost:6380/0?pool_size=20&dial_timeout=1s": "",
		"unix:///run/redis.sock?db=1":                                    "",
		"unix://user:secret@/run/redis.sock":                             "",
		"redis://localhost:7000?addr=localhost:7001&addr=localhost:7002": "",
		"redis://localhost:26379?master_name=main&addr=localhost:26380":  "",
		"redis://localhost:6379?max_retries=2":                           "",
		"":                                                               `is empty: write "memory:", or "redis://" and a host`,
		"memory":                                                         `is "memory": write "memory:"`,
		"memory://localhost":                                             `has something behind "memory:"`,
		"memory:large":                                                   `has something behind "memory:"`,
		"memory:?":                                                       `has something behind "memory:"`,
		"127.0.0.1:6379":                                                 `is "127.0.0.1:6379": write "redis://127.0.0.1:6379"`,
		"localhost:6379":                                                 `is "localhost:6379": write "redis://localhost:6379"`,
		"[::1]:6379":                                                     `is "[::1]:6379": write "redis://[::1]:6379"`,
		"localhost":                                                      `lacks a scheme: write "redis://"`,
		"user:secret@localhost:6379":                                     `lacks a scheme: write "redis://"`,
		":secret@localhost":                                              `lacks a scheme: write "redis://"`,
		"/run/redis.sock":                                                `lacks a scheme: write "unix://"`,
		"redis://localhost:6379 ":                                        `ends with ' '`,
		"redis://:secret@localhost\n":                                    `ends with '\n'`,
		" redis://localhost:6379":                                        `begins with ' '`,
		"http://user:secret@localhost":                                   `must start with memory:, redis:// (for Valkey, too), rediss:// or unix://, not with "http:"`,
		"valkey://localhost":                                             `not with "valkey:"`,
		"redis:localhost:6379":                                           "lacks what follows redis://",
		"redis:":                                                         "names no host",
		"redis://":                                                       `names no host after redis://: write "redis://localhost:6379"`,
		"rediss:///0":                                                    `names no host after rediss://: write "rediss://localhost:6379"`,
		"unix://run/redis.sock":                                          "three slashes",
		"unix://":                                                        "lacks what follows unix://",
		"redis://user:secret@localhost:99999":                            "has port 99999: a port is from 1 to 65535",
		"redis://user:12345678":                                          "has a port that is not from 1 to 65535",
		"redis://:99999":                                                 "has a port that is not from 1 to 65535",
		"redis://:secret":                                                "malformed",
		"redis://localhost:0":                                            "has port 0: a port is from 1 to 65535",
		"redis://localhost:7000?addr=h:70000":                            "has addr=h:70000: a port is from 1 to 65535",
		"redis://localhost:7000?addr=me:secret@h:7001":                   "a user or password in addr",
		"redis://localhost?master_name=":                                 "master_name is empty",
		"redis://:secret/0@localhost:6379":                               "malformed",
		"redis://user:secret#0@localhost:6379":                           "malformed",
		"redis://user:secret@localhost:port":                             "malformed",
		"redis://user:secret@local\x7fhost":                              "malformed",
		"redis://user:secret%zz@localhost":                               "malformed",
		"redis://user:secret@localhost/database":                         "core:",
		"redis://user:secret@localhost?pool_size=many":                   "core:",
		"redis://user:secret@localhost?pool_size=-5":                     "pool_size=-5: want 1 to 1048576, or 0",
		"redis://localhost?pool_size=9223372036854775807":                "pool_size=9223372036854775807: want 1 to 1048576",
		"redis://localhost?addr=localhost:7001&pool_size=-1":             "pool_size=-1",
		"redis://localhost?master_name=main&pool_size=-1":                "pool_size=-1",
		"redis://user:secret@localhost?no_such_option=1":                 "core:",
		"redis://user:secret@localhost?master_name=main&no_such_option=1":         "core:",
		"redis://user:secret@localhost?addr=localhost:7001&no_such_option=1":      "core:",
		"redis://localhost?master_name=main&password=secret&sentinel_timeout=\t1": "malformed",
	} {
		limiter, err := core.Open(url)
		switch {
		case problem == "" && err != nil:
			t.Errorf("Open(%q): %v", url, err)
		case problem == "":
			if err := limiter.Close(); err != nil {
				t.Errorf("Close of %q: %v", url, err)
			}
		case err == nil:
			_ = limiter.Close()
			t.Errorf("Open(%q) succeeds, want an error with %q", url, problem)
		case !strings.Contains(err.Error(), problem) || !strings.HasPrefix(err.Error(), "core: "):
			t.Errorf("Open(%q): %v, want one with %q", url, err, problem)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}

// Where a password is not escaped, the URL is taken apart in the wrong places: whatever part it ends up
// in, no error repeats it.
func TestOpenNeverRepeatsAPassword(t *testing.T) {
	for _, password := range []string{"secret", "se/cret", "12/secret", "12#secret", "12?secret", "12?pool_size=secret", "secret=", "12?db=1&secret", "12;secret", "%secret", "se:cret", "12@secret", "1@1/secret", "12345678/0", " secret", "secret "} {
		for _, form := range []string{
			"redis://:%s@localhost:6379", "redis://user:%s@localhost/x/y", "rediss://user:%s@localhost:99999",
			"unix://:%s@/run/redis.sock?x=y", "redis://localhost:1?addr=:%s@localhost:2", "user:%s@localhost", ":%s@localhost:99999",
		} {
			limiter, err := core.Open(fmt.Sprintf(form, password))
			if err == nil {
				_ = limiter.Close()
			} else if text := err.Error(); strings.Contains(text, "cret") || strings.Contains(text, "12345678") {
				t.Errorf("Open(%q): %v", fmt.Sprintf(form, password), err)
			}
		}
	}
}

func TestCallsAfterCloseSayThatTheLimiterIsClosed(t *testing.T) {
	for _, url := range []string{"memory:", redistest.Shared(t).URL()} {
		limiter, err := core.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := limiter.Close(); err != nil {
			t.Fatal(err)
		}
		limit := core.Leaky(1, core.PerSecond(1))
		_, allow := limiter.Allow(t.Context(), "key", limit)
		_, peek := limiter.Peek(t.Context(), "key", limit)
		_, reserve := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1})
		for verb, err := range map[string]error{
			"Allow": allow, "Peek": peek, "Reserve": reserve, "Reset": limiter.Reset(t.Context(), "key", limit),
			"Wait": limiter.Wait(t.Context(), "key", limit), "Ping": limiter.Ping(t.Context()),
		} {
			if err == nil || err.Error() != "core: the limiter is closed, or its store" || core.FailureOf(err) != core.Closed {
				t.Errorf("%s on a closed limiter of %s: %v", verb, url, err)
			}
		}
	}
}

func TestOpenOneServer(t *testing.T) {
	limiter, err := core.Open(redistest.Shared(t).URL(), core.WithBudget(patient))
	if err != nil {
		t.Fatal(err)
	}
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := limiter.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1))); err == nil {
		t.Error("a call after Close is no error")
	}
}

func TestOpenSentinel(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	limiter, err := core.Open("redis://"+sentinel.Addr()+"?master_name="+sentinel.MasterName(), core.WithBudget(patient))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Allow(t.Context(), "key", core.Leaky(2, core.PerHour(1))); err != nil || d.Remaining != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A client is closed by the code that has made it.
func TestCloseLeavesYourClientOpen(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	if err := core.New(core.NewRedis(client)).Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

// The clock of a store in memory is the one that Open was given.
func TestOpenGivesTheStoreItsOptions(t *testing.T) {
	for _, url := range []string{"memory:", redistest.Shared(t).URL()} {
		now := time.Unix(1_000_000_000, 0)
		limiter, err := core.Open(url, core.WithBudget(patient), core.WithClock(func() time.Time { return now }), core.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		key, limit := rand.Text(), core.FixedWindow(1, time.Hour)
		allowed := func() bool {
			t.Helper()
			d, err := limiter.Allow(t.Context(), key, limit)
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		}
		if !allowed() || allowed() {
			t.Fatalf("%s: of a limit of 1, not exactly one passes", url)
		}
		if now = now.Add(time.Hour); !allowed() {
			t.Errorf("%s: an hour later by the clock that was given, the window of an hour is still full", url)
		}
	}
	store, err := core.OpenStore("memory:", core.WithMaxKeys(7))
	if err != nil {
		t.Fatal(err)
	}
	limiter := core.New(store)
	for range 8 {
		if _, err := limiter.Allow(t.Context(), rand.Text(), core.FixedWindow(2, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if n := keysIn(store); n != 7 {
		t.Errorf("memory: holds %d keys, want the 7 that it was given", n)
	}
}

// One list of options serves the URLs of development and of production.
func TestOpenAcceptsOptionsOfOtherStores(t *testing.T) {
	options := []core.Option{
		core.WithBudget(time.Second), core.WithPrefix("shop"), core.WithBreaker(0, 0), core.WithInFlight(1), core.WithQueue(1, time.Second),
		core.WithMaxKeys(7), core.WithTrace(core.Trace{}),
	}
	for _, url := range []string{"memory:", "redis://localhost", "unix:///run/redis.sock"} {
		limiter, err := core.Open(url, options...)
		if err != nil {
			t.Errorf("Open(%q): %v", url, err)
			continue
		}
		_ = limiter.Close()
		store, err := core.OpenStore(url, options...)
		if err != nil {
			t.Errorf("OpenStore(%q): %v", url, err)
			continue
		}
		_ = store.Close()
	}
}

func TestOpenStore(t *testing.T) {
	memory, err := core.OpenStore("memory:", core.Option{}, core.WithTrace(core.Trace{}), core.WithLogger(slog.Default()))
	if err != nil {
		t.Fatal(err)
	}
	if inspect.StoreOf(core.New(memory)).Memory == nil {
		t.Errorf("memory: is a %T", memory)
	}
	store, err := core.OpenStore(redistest.Shared(t).URL(), core.WithTrace(core.Trace{}), core.WithLogger(slog.Default()))
	if err != nil {
		t.Fatal(err)
	}
	if inspect.StoreOf(core.New(store)).Redis == nil {
		t.Fatalf("redis: is a %T", store)
	}
	limiter := core.New(denialcache.New(store, 10))
	if err := errors.Join(limiter.Ping(t.Context()), limiter.Close()); err != nil {
		t.Fatal(err)
	}
	if err := store.Ping(t.Context()); core.FailureOf(err) != core.Closed {
		t.Errorf("the limiter was closed, and the store answers %v", err)
	}
	if store, err := core.OpenStore("http://localhost"); store != nil || err == nil {
		t.Errorf("a URL that names no store opens %v, %v", store, err)
	}
}
