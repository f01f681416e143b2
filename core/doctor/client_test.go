package doctor_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// What cannot be talked to is explained, and nothing else is asked.
func TestExamineConnection(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // and it never answers
	gone := redistest.Start(t)
	gone.Stop(t)
	for url, want := range map[string]string{
		server.URL():                                                      "wants a password",
		"redis://:wr0ng@" + server.Addr():                                 "does not know this user",
		"redis://me:wr0ng@" + server.Addr():                               "does not know this user",
		"redis://" + gone.Addr():                                          "Nothing listens",
		"redis://" + listener.Addr().String():                             "does not answer in time",
		"redis://no-such-host.invalid":                                    "connection",
		"redis://" + server.Addr() + "?addr=" + server.Addr():             "connection",
		"redis://:right@" + server.Addr() + "?addr=" + server.Addr():      "redis.NewClient",
		"redis://" + gone.Addr() + "?master_name=main&dial_timeout=100ms": "connection",
	} {
		t.Run(url, func(t *testing.T) {
			limiter := opened(t, url)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			d := doctor.Examine(ctx, limiter)
			wantFinding(t, d, "connection", doctor.Problem, want)
			for _, f := range d {
				if f.Server != "" && f.Name != "connection" {
					t.Errorf("of a server that does not answer: %s", f)
				}
			}
			if text := d.String() + fmt.Sprint(d.Err()); strings.Contains(text, "wr0ng") || strings.Contains(text, "right") {
				t.Errorf("a password is in %s", text)
			}
		})
	}
	t.Run("with the right password", func(t *testing.T) {
		d := doctor.Examine(t.Context(), opened(t, "redis://:right@"+server.Addr()))
		wantHealthy(t, d)
		if strings.Contains(d.String(), "right") {
			t.Errorf("a password is in %s", d)
		}
	})
}

func TestExamineClient(t *testing.T) {
	server := redistest.Shared(t)
	for name, test := range map[string]struct {
		change   func(*redis.Options)
		severity doctor.Severity
		text     string
	}{
		"retries by default":     {func(o *redis.Options) { o.MaxRetries = 0 }, doctor.Problem, "up to 3 times"},
		"retries":                {func(o *redis.Options) { o.MaxRetries = 1 }, doctor.Problem, "up to 1 times"},
		"no retries":             {func(o *redis.Options) { o.MaxRetries = -1 }, doctor.OK, "repeats no call"},
		"no deadlines":           {func(o *redis.Options) { o.ContextTimeoutEnabled = false }, doctor.Notice, "ContextTimeoutEnabled: true"},
		"deadlines":              {func(o *redis.Options) { o.ContextTimeoutEnabled = true }, doctor.OK, "heeds deadlines"},
		"an older protocol":      {func(o *redis.Options) { o.Protocol = 2 }, doctor.OK, "RESP2"},
		"the protocol of today":  {func(*redis.Options) {}, doctor.OK, "RESP3"},
		"a connection from here": {func(*redis.Options) {}, doctor.OK, "none, within this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			d := doctor.Examine(t.Context(), core.New(core.NewRedis(server.Client(t, test.change), core.WithPrefix(redistest.Prefix(t)[:20]))))
			found := false
			for _, f := range d {
				found = found || f.Severity == test.severity && strings.Contains(f.String(), test.text)
			}
			if !found {
				t.Errorf("no %s with %q in\n%s", test.severity, test.text, d)
			}
		})
	}

	t.Run("of a kind that is not known", func(t *testing.T) {
		d := doctor.Examine(t.Context(), core.New(core.NewRedis(wrapped{server.Client(t)})))
		wantFinding(t, d, "client", doctor.Notice, "doctor_test.wrapped cannot be seen")
		wantHealthy(t, d)
		if got := names(d)["the server"]; got != serverChecks {
			t.Errorf("checked %q", got)
		}
	})
	t.Run("across a network without TLS", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nobody is there
		wantFinding(t, doctor.Examine(ctx, opened(t, "redis://192.0.2.1:6379")), "encryption", doctor.Notice, "rediss://")
	})
	t.Run("over a Unix socket", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantFinding(t, doctor.Examine(ctx, opened(t, "unix:///run/no-such.sock")), "encryption", doctor.OK, "Unix socket")
	})
}

// wrapped is a client of an unknown kind.
type wrapped struct{ redis.UniversalClient }

func TestExamineLatency(t *testing.T) {
	limiter := core.New(core.NewRedis(redistest.Shared(t).Client(t), core.WithBudget(time.Nanosecond)))
	wantFinding(t, doctor.Examine(t.Context(), limiter), "latency", doctor.Problem, "the budget is 1ns")
}

// An examination that is given up leaves nothing behind.
func TestExamineGivenUp(t *testing.T) {
	server := redistest.Start(t)
	for n := range 60 { // after each of the first calls
		ctx, cancel := context.WithCancel(t.Context())
		client := server.Client(t)
		client.AddHook(&givingUp{after: n, cancel: cancel})
		_ = doctor.Examine(ctx, core.New(core.NewRedis(client)))
		cancel()
	}
	if keys := server.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left %q", keys)
	}
}

// givingUp cancels a context after some calls.
type givingUp struct {
	after  int
	calls  atomic.Int64
	cancel context.CancelFunc
}

func (g *givingUp) count() {
	if g.calls.Add(1) > int64(g.after) {
		g.cancel()
	}
}

func (g *givingUp) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *givingUp) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer g.count()
		return next(ctx, cmd)
	}
}

func (g *givingUp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer g.count()
		return next(ctx, cmds)
	}
}
