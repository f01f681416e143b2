package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestMain runs the tests and then looks for what they left behind.
func TestMain(m *testing.M) {
	code := Run(m)
	for _, server := range remembered {
		if server.process == nil {
			continue // it is somebody else's
		}
		if err := dead(server); err != nil {
			fmt.Fprintln(os.Stderr, "after Run:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// dead returns nil when nothing of the server is left.
func dead(s *Server) error {
	var dialer net.Dialer
	if connection, err := dialer.DialContext(context.Background(), "tcp", s.Addr()); err == nil {
		return errors.Join(fmt.Errorf("%s still answers", s.Addr()), connection.Close())
	}
	if _, err := os.Stat(s.process.directory); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there: %w", s.process.directory, err)
	}
	return nil
}

func roundTrip(t *testing.T, client redis.UniversalClient, key string) {
	t.Helper()
	if err := client.Set(t.Context(), key, "value of "+key, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), key).Result(); err != nil || got != "value of "+key {
		t.Fatalf("GET %s = %q, %v", key, got, err)
	}
}

func TestStartedServerServesAndEndsWithItsTest(t *testing.T) {
	var server *Server
	t.Run("serves", func(t *testing.T) {
		server = Start(t)
		roundTrip(t, server.Client(t), Prefix(t)+"key")
		if want := "redis://" + server.Addr(); server.URL() != want {
			t.Errorf("URL() = %q, want %q", server.URL(), want)
		}
	})
	if server == nil {
		t.Skip("no server was started")
	}
	if err := dead(server); err != nil {
		t.Error(err)
	}
}

func TestStartedServerKeepsNothing(t *testing.T) {
	client := Start(t).Client(t)
	for name, want := range map[string]string{"save": "", "appendonly": "no", "bind": loopback} {
		if got := client.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("CONFIG GET %s = %q, want %q", name, got, want)
		}
	}
}

func TestStartTakesArguments(t *testing.T) {
	t.Run("a setting", func(t *testing.T) {
		client := Start(t, "--maxmemory", "7mb").Client(t)
		if got := client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "7340032" {
			t.Errorf("CONFIG GET maxmemory = %q, want 7340032", got)
		}
	})
	t.Run("a password", func(t *testing.T) {
		server := Start(t, "--requirepass", "secret")
		roundTrip(t, server.Client(t, func(o *redis.Options) { o.Password = "secret" }), "key")
	})
}

// verdict is a testing.TB that notes how a test was ended.
type verdict struct {
	testing.TB

	skipped, failed string
}

func (v *verdict) Helper() {}

func (v *verdict) Skip(arguments ...any) {
	v.skipped = fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdict) Fatal(arguments ...any) {
	v.failed = fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, arguments ...any) { v.Fatal(fmt.Sprintf(format, arguments...)) }

// judge runs a part of a test that ends early.
func judge(t *testing.T, part func(testing.TB)) *verdict {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(v)
	}()
	<-done
	return v
}

func TestMissingServerSkipsAndFailsInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(serverProgram, "")
	starts := map[string]func(testing.TB){
		"alone":    func(tb testing.TB) { tb.Helper(); Start(tb) },
		"cluster":  func(tb testing.TB) { tb.Helper(); StartCluster(tb) },
		"sentinel": func(tb testing.TB) { tb.Helper(); StartSentinel(tb) },
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", "true")
			if v := judge(t, start); v.skipped != "" || !strings.Contains(v.failed, "make test") {
				t.Errorf("with CI=true: skipped with %q, failed with %q", v.skipped, v.failed)
			}
			t.Setenv("CI", "")
			if v := judge(t, start); v.failed != "" || !strings.Contains(v.skipped, "make test") {
				t.Errorf("without CI: skipped with %q, failed with %q", v.skipped, v.failed)
			}
		})
	}
}

func TestCallsAreCounted(t *testing.T) {
	server := Start(t)
	client := server.Client(t)
	script := redis.NewScript(`return redis.call("INCR", KEYS[1])`)
	if err := script.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := script.Run(t.Context(), client, []string{"key"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	load := "script|load"
	if Major(t) < 7 {
		load = "script"
	}
	for command, want := range map[string]int{"evalsha": 3, "EVALSHA": 3, "incr": 3, load: 1, "eval": 0} {
		if got := server.Calls(t, command); got != want {
			t.Errorf("Calls(%q) = %d, want %d", command, got, want)
		}
	}
}

func TestCallsInNonsenseIsAnError(t *testing.T) {
	if _, err := callsIn("cmdstat_get:calls=many,usec=1\r\n", "get"); err == nil {
		t.Error("a count that is no number was taken")
	}
}

func TestRestartedServerIsEmptyAndOnTheSamePort(t *testing.T) {
	server := Start(t)
	client := server.Client(t)
	roundTrip(t, client, "key")
	server.Stop(t)
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answered")
	}
	server.Stop(t)
	server.Restart(t)
	if got, err := server.Client(t).Exists(t.Context(), "key").Result(); err != nil || got != 0 {
		t.Errorf("EXISTS key after a restart = %d, %v", got, err)
	}
	server.Restart(t)
	roundTrip(t, server.Client(t), "key")
}

func TestPausedServerHoldsItsAnswer(t *testing.T) {
	server := Start(t)
	client := server.Client(t, func(o *redis.Options) {
		o.ContextTimeoutEnabled = true
		o.MaxRetries = -1
	})
	roundTrip(t, client, "key")
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("PING of a paused server = %v, want a timeout", err)
	}
	server.Resume(t)
	roundTrip(t, client, "key")
	server.Pause(t) // and it ends with the test all the same
}
