package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// roundTrips lists the script calls of a client, each of which is a round trip.
type roundTrips struct{ sent []string }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			r.sent = append(r.sent, cmd.Name())
		}
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *roundTrips) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(r.sent, " "); got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	r.sent = nil
}

// threeLimits is a call about three algorithms.
func threeLimits(key string) []core.Check {
	return []core.Check{
		{Key: key, Limit: core.Leaky(10, core.PerSecond(1)), Cost: 1},
		{Key: key, Limit: core.FixedWindow(100, time.Hour), Cost: 1},
		{Key: key, Limit: core.SlidingLog(100, time.Hour), Cost: 1},
	}
}

func TestOneRoundTripACall(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	trips := &roundTrips{}
	client.AddHook(trips)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	trips.want(t, "")

	limit := core.Leaky(1000, core.PerSecond(1))
	allow := func(want string) {
		t.Helper()
		if _, err := limiter.Allow(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		trips.want(t, want)
	}
	allow("evalsha eval") // the server has never seen the script
	for range 5 {
		allow("evalsha")
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	trips.sent = nil
	allow("evalsha eval")
	allow("evalsha")
	server.Restart(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Log(err) // of a connection that broke
	}
	trips.sent = nil
	allow("evalsha eval")

	for _, want := range []string{"evalsha eval", "evalsha"} {
		before := server.Calls(t, "evalsha")
		if _, err := limiter.AllowAll(t.Context(), threeLimits("all")...); err != nil {
			t.Fatal(err)
		}
		trips.want(t, want)
		if calls := server.Calls(t, "evalsha") - before; calls != 1 {
			t.Errorf("the server has seen %d EVALSHA for one call, want 1", calls)
		}
	}
}

func TestPingLoadsTheScripts(t *testing.T) {
	client := redistest.Start(t).Client(t)
	trips := &roundTrips{}
	client.AddHook(trips)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, limit := range hourly {
		trips.sent = nil
		if _, err := limiter.Allow(t.Context(), "key", limit(5)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		trips.want(t, "evalsha")
	}
}

// Whatever a process has used of a server, Ping is content with it and loads all of that again after a flush.
func TestPingLoadsWhatThisProcessHasUsed(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	trips := &roundTrips{}
	client.AddHook(trips)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithLogger(discard)))
	use := func() {
		t.Helper()
		for name, limit := range hourly {
			check := core.Check{Key: "key", Limit: limit(5)}
			if name != "shaping" { // its turns are handed on
				check.ReserveFor = time.Minute
			}
			r, err := limiter.Reserve(t.Context(), check)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := r.Cancel(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	use()
	for _, flush := range []bool{false, true} {
		if flush {
			client.ScriptFlush(t.Context())
		}
		if err := limiter.Ping(t.Context()); err != nil {
			t.Fatalf("Ping after a use of everything (flushed: %t): %v", flush, err)
		}
	}
	trips.sent = nil
	use()
	for _, sent := range trips.sent {
		if sent == "eval" {
			t.Errorf("%q was sent after a Ping", sent)
		}
	}
}

// Who may not run SCRIPT is as ready as others.
func TestPingNeedsNoScriptCommand(t *testing.T) {
	server := redistest.Start(t)
	user := redistest.Without(redistest.Without(redistest.AloneUser, "+script|exists"), "+script|load")
	redistest.SetUser(t, server.Client(t), "limiter", user)
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "secret" })
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	if err := limiter.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	redistest.SetUser(t, server.Client(t), "other", strings.Replace(redistest.AloneUser, "~ratelimit:*", "~other:*", 1))
	client = server.Client(t, func(o *redis.Options) { o.Username, o.Password = "other", "secret" })
	if err := core.New(core.NewRedis(client, core.WithBudget(patient))).Ping(t.Context()); core.FailureOf(err) != "not-permitted" {
		t.Errorf("Ping of a user who may not touch the keys says %v", err)
	}
}

func TestPeekAndDenialWriteNothing(t *testing.T) {
	client := redistest.Start(t).Client(t)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	ctx := t.Context()
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			l := limit(2)
			if _, err := limiter.Peek(ctx, name, l); err != nil {
				t.Fatal(err)
			}
			if _, err := limiter.AllowN(ctx, name, l, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := limiter.AllowN(ctx, name, l, 3); err != nil {
				t.Fatal(err)
			}
			if keys := keysOf(t, client, "*"+l.Name()); len(keys) != 0 {
				t.Fatalf("peeks and denials have left %q", keys)
			}
			if _, err := limiter.AllowN(ctx, name, l, 2); err != nil {
				t.Fatal(err)
			}
			key := keysOf(t, client, "*"+l.Name())[0]
			before, expires := client.Dump(ctx, key).Val(), client.PExpireTime(ctx, key).Val()
			for range 3 {
				if d, err := limiter.Allow(ctx, name, l); err != nil || d.Allowed {
					t.Fatalf("%+v, %v, want a denial", d, err)
				}
				if _, err := limiter.Peek(ctx, name, l); err != nil {
					t.Fatal(err)
				}
				neighbour := core.Check{Key: name, Limit: core.GCRA(7, core.PerHour(1)), Cost: 1}
				if _, err := limiter.AllowAll(ctx, neighbour, core.Check{Key: name, Limit: l, Cost: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if client.Dump(ctx, key).Val() != before || client.PExpireTime(ctx, key).Val() != expires {
				t.Errorf("denials and peeks have written %s", key)
			}
			if keys := keysOf(t, client, "*"+core.GCRA(7, core.PerHour(1)).Name()); len(keys) != 0 {
				t.Errorf("a denied call has left %q", keys)
			}
		})
	}
}

func keysOf(t *testing.T, client *redis.Client, pattern string) []string {
	t.Helper()
	keys, err := client.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestPrefixesKeepStoresApart(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	for name, limit := range hourly {
		for _, application := range []string{"one", "two"} {
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix+application), core.WithBudget(patient)))
			if d, err := limiter.AllowN(t.Context(), "key", limit(2), 2); err != nil || !d.Allowed {
				t.Errorf("%s of %s: %+v, %v", name, application, d, err)
			}
		}
	}
}

// A reply that says no is an error with its own words, and not asked again.
func TestErrorReplies(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithBreaker(0, 0)))
	for reply, kind := range map[string]core.Failure{
		"READONLY You can't write against a read only replica.":                                                          "read-only",
		"ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write against a read only replica.": "read-only",
		"LOADING Redis is loading the dataset in memory":                                                                 "loading",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                               "cluster-down",
		"CLUSTERDOWN The cluster is down":                                                                                "cluster-down",
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                        "cluster-down",
		"ASK 3999 127.0.0.1:6381":                                                                                        "cluster-down",
		"MOVED 3999 127.0.0.1:6381":                                                                                      "cluster-down",
		"OOM command not allowed when used memory > 'maxmemory'.":                                                        "out-of-memory",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":               "misconfigured",
		"NOREPLICAS Not enough good replicas to write.":                                                                  "misconfigured",
		"NOAUTH Authentication required.":                                                                                "not-permitted",
		"WRONGPASS invalid username-password pair or user is disabled.":                                                  "not-permitted",
		"NOPERM this user has no permissions to run the 'evalsha' command":                                               "not-permitted",
		"ERR ERR The user executing the script can't run this command or subcommand script: 280ab6e, on @user_script:9.": "not-permitted", //nolint:dupword // so says Redis 7.0
		"BUSY Redis is busy running a script.":                                                                           "busy",
		"UNKILLABLE Sorry the script already executed write commands against the dataset.":                               "busy",
		"ERR invalid password":                     "not-permitted",
		"ERR something that nobody has thought of": "other",
	} {
		server.SetError(reply)
		_, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
		if err == nil || !strings.Contains(err.Error(), reply) {
			t.Errorf("%v, want one that says %s", err, reply)
		}
		if got := core.FailureOf(err); got != kind {
			t.Errorf("%q is %s, want %s", reply, got, kind)
		}
		if err := limiter.Ping(t.Context()); err == nil {
			t.Errorf("Ping is content with %s", reply)
		}
	}
}

// A server that refuses the user of a connection is sent no command, so that no command has an error.
func TestPingTellsOfAWrongPassword(t *testing.T) {
	server := redistest.Start(t)
	redistest.SetUser(t, server.Client(t), "limiter", "on >secret ~* &* +@all")
	for password, kind := range map[string]core.Failure{"secret": "", "wrong": "not-permitted"} {
		client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", password })
		if err := core.New(core.NewRedis(client, core.WithLogger(discard))).Ping(t.Context()); core.FailureOf(err) != kind {
			t.Errorf("with the password %s it says %v", password, err)
		}
	}
}

// A trace gets each batch, with its error.
func TestTrace(t *testing.T) {
	server := redistest.Start(t)
	var mu sync.Mutex
	var batches []core.Batch
	var states []string
	client := server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithLogger(discard),
		core.WithBreaker(1, time.Hour), core.WithBudget(patient), core.WithTrace(core.Trace{
			Batch: func(batch core.Batch) {
				mu.Lock()
				defer mu.Unlock()
				batches = append(batches, batch)
			},
			Breaker: func(at string, state string) {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, state)
				if at != server.Addr() {
					t.Errorf("the breaker of %q, want %q", at, server.Addr())
				}
			},
		})))
	if _, err := limiter.AllowAll(t.Context(), threeLimits("key")...); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	var failures []core.Failure
	for range 2 {
		_, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
		failures = append(failures, core.FailureOf(err))
	}
	// Newer clients dial more than once before they give up.
	if first := failures[0]; first != core.Unreachable && first != core.TimedOut || failures[1] != core.Suspended {
		t.Errorf("failures %v, want the server's and then %s", failures, core.Suspended)
	}
	reported := func() bool { // a worker may report a batch after it has answered it
		mu.Lock()
		defer mu.Unlock()
		return len(batches) >= 2 && len(states) >= 1
	}
	for deadline := time.Now().Add(patient); !reported() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(batches) != 2 || batches[0].Server != server.Addr() || batches[0].Calls != 1 || batches[0].Checks != 6 || // a log weighs four
		batches[0].Err != nil || batches[0].Elapsed <= 0 || core.FailureOf(batches[1].Err) != failures[0] {
		t.Errorf("batches %+v, want one that was answered and one that was not", batches)
	}
	if len(states) != 1 || states[0] != "open" {
		t.Errorf("the breaker was %v, want it to open", states)
	}
}

// report is a logger that keeps what it logs.
var discard = slog.New(slog.DiscardHandler)

func report() (*slog.Logger, *bytes.Buffer) {
	var words bytes.Buffer
	return slog.New(slog.NewTextHandler(&words, nil)), &words
}
