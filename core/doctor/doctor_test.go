package doctor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// wantFinding fails unless a report has a finding of a name and a severity that has
// a text in it.
func wantFinding(t *testing.T, d doctor.Report, name string, severity doctor.Severity, text string) {
	t.Helper()
	for _, f := range d {
		if f.Name == name && f.Severity == severity && strings.Contains(f.String(), text) {
			return
		}
	}
	t.Errorf("no %s about %s with %q in\n%s", severity, name, text, d)
}

// names returns what a report is about, for each server.
func names(d doctor.Report) map[string]string {
	byServer := make(map[string]string)
	for _, f := range d {
		byServer[f.Server] = strings.TrimSpace(byServer[f.Server] + " " + f.Name)
	}
	return byServer
}

// patient is a budget that a busy machine cannot exceed.
const patient = 30 * time.Second

const (
	ownChecks    = "retries deadlines dialer encryption"
	serverChecks = "server role memory persistence clock permissions scripts latency"
	nodeChecks   = "server role cluster memory persistence clock permissions scripts latency"
)

func opened(t *testing.T, url string) *core.Limiter {
	t.Helper()
	limiter, err := core.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	return limiter
}

// wantHealthy fails if a report has a problem.
func wantHealthy(t *testing.T, d doctor.Report) {
	t.Helper()
	for _, f := range d {
		// A machine that is busy with other tests may be late.
		if f.Severity == doctor.Problem && f.Name != "latency" {
			t.Errorf("%s", f)
		}
	}
}

func TestExamineOneServer(t *testing.T) {
	server := redistest.Start(t)
	d := doctor.Examine(t.Context(), opened(t, server.URL()))
	wantHealthy(t, d)
	if got := names(d); len(got) != 2 || got[""] != ownChecks || got[server.Addr()] != serverChecks {
		t.Errorf("checked %q", got)
	}
	if keys := server.Client(t).DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys are left", keys)
	}
}

func TestExamineCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	limiter := opened(t, cluster.URL())
	d := doctor.Examine(t.Context(), limiter)
	wantHealthy(t, d)
	wantFinding(t, d, "cluster", doctor.OK, "16384 of 16384 slots on 3 masters, state ok")
	for _, node := range cluster.Nodes() {
		if got := names(d)[node.Addr()]; got != nodeChecks {
			t.Errorf("checked %q of %s", got, node.Addr())
		}
		if keys := node.Client(t).DBSize(t.Context()).Val(); keys != 0 {
			t.Errorf("%d keys are left on %s", keys, node.Addr())
		}
	}

	t.Run("with a client for one server", func(t *testing.T) {
		wantFinding(t, doctor.Examine(t.Context(), opened(t, cluster.Nodes()[0].URL())), "role", doctor.Problem, "redis.NewClusterClient")
	})
	t.Run("with a slot that nobody has", func(t *testing.T) {
		node := cluster.Nodes()[0].Client(t)
		if err := node.Do(t.Context(), "cluster", "delslots", 0).Err(); err != nil {
			t.Fatal(err)
		}
		wantFinding(t, doctor.Examine(t.Context(), limiter), "cluster", doctor.Problem, "16383 of 16384 slots")
		if err := node.Do(t.Context(), "cluster", "addslots", 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("with a node that is down", func(t *testing.T) {
		lost := cluster.Nodes()[2]
		lost.Stop(t)
		d := doctor.Examine(t.Context(), limiter)
		wantFinding(t, d, "connection", doctor.Problem, lost.Addr())
		if got := names(d)[cluster.Nodes()[0].Addr()]; got != nodeChecks {
			t.Errorf("checked %q of a node that is up", got)
		}
	})
	t.Run("with no node up", func(t *testing.T) {
		for _, node := range cluster.Nodes()[:2] {
			node.Stop(t)
		}
		wantFinding(t, doctor.Examine(t.Context(), opened(t, cluster.URL())), "connection", doctor.Problem, "connection refused")
	})
}

func TestExamineSentinel(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	d := doctor.Examine(t.Context(), opened(t, "redis://"+sentinel.Addr()+"?master_name="+sentinel.MasterName()))
	wantHealthy(t, d)
	wantFinding(t, d, "role", doctor.OK, "master, replicas: 1")
	if got := names(d)["the sentinels' master"]; got != serverChecks {
		t.Errorf("checked %q", got)
	}

	d = doctor.Examine(t.Context(), opened(t, sentinel.Replica().URL()))
	wantFinding(t, d, "role", doctor.Problem, "a replica")
	d = doctor.Examine(t.Context(), opened(t, "redis://"+sentinel.Addr()))
	wantFinding(t, d, "role", doctor.Problem, "master_name")

	sentinel.Replica().Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	client := sentinel.Master().Client(t)
	for !strings.Contains(client.Info(ctx, "replication").Val(), "connected_slaves:0\r\n") {
		if ctx.Err() != nil {
			t.Fatal("the master still counts its replica")
		}
	}
	d = doctor.Examine(t.Context(), opened(t, "redis://"+sentinel.Addr()+"?master_name="+sentinel.MasterName()))
	wantFinding(t, d, "role", doctor.Notice, "without a replica")
}

func TestExamineRing(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:      map[string]string{"a": servers[0].Addr(), "b": servers[1].Addr()},
		MaxRetries: -1, ContextTimeoutEnabled: true, HeartbeatFrequency: 10 * time.Millisecond,
	})
	t.Cleanup(func() { _ = ring.Close() })
	limiter := core.New(core.NewRedis(ring))
	d := doctor.Examine(t.Context(), limiter)
	wantHealthy(t, d)
	wantFinding(t, d, "ring", doctor.OK, "all of 2 shards")
	for _, server := range servers {
		if got := names(d)[server.Addr()]; got != serverChecks {
			t.Errorf("checked %q of %s", got, server.Addr())
		}
		if keys := server.Client(t).DBSize(t.Context()).Val(); keys != 0 {
			t.Errorf("%d keys are left on %s", keys, server.Addr())
		}
	}

	servers[1].Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for ring.Len() > 1 {
		if ctx.Err() != nil {
			t.Fatal("the ring still counts on a server that is down")
		}
		time.Sleep(time.Millisecond)
	}
	wantFinding(t, doctor.Examine(t.Context(), limiter), "ring", doctor.Problem, "1 of 2 shards are down: "+servers[1].Addr())
}

// What a server is set to decides whether limits hold.
func TestExamineMemory(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for _, test := range []struct {
		most, policy string
		severity     doctor.Severity
		text         string
	}{
		{"0", "noeviction", doctor.Notice, "no maxmemory. Redis grows until the machine has no memory left"},
		{"0", "allkeys-lru", doctor.Notice, "Set maxmemory to what it may use, such as CONFIG SET maxmemory 256mb"},
		{"1gb", "noeviction", doctor.OK, "1024.0 MB"},
		{"1gb", "allkeys-lru", doctor.Problem, "like anything else"},
		{"1gb", "allkeys-random", doctor.Problem, "like anything else"},
		{"1gb", "volatile-ttl", doctor.Problem, "time to live"},
		{"1gb", "volatile-lfu", doctor.Problem, "time to live"},
		{"2mb", "noeviction", doctor.Notice, "When it is full"},
	} {
		t.Run(test.policy+" "+test.most, func(t *testing.T) {
			for name, value := range map[string]string{"maxmemory": test.most, "maxmemory-policy": test.policy} {
				if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.most == "2mb" { // fill it, but not quite
				for i := 0; usedMemory(t, client) < 19*(2<<20)/20; i++ {
					client.Set(t.Context(), strconv.Itoa(i), strings.Repeat("x", 10_000), 0)
				}
			}
			wantFinding(t, doctor.Examine(t.Context(), opened(t, server.URL())), "memory", test.severity, test.text)
		})
	}

	t.Run("full", func(t *testing.T) {
		if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		d := doctor.Examine(t.Context(), opened(t, server.URL()))
		wantFinding(t, d, "memory", doctor.Problem, "writes are refused (OOM)")
		wantFinding(t, d, "scripts", doctor.Problem, "memory is full")
	})
}

// A server whose INFO leaves room may refuse the next write all the same.
func TestExamineRefusedWrites(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	client := server.Client(t)
	for i := 0; ; i++ { // a full server counts no less than this
		if err := client.Set(t.Context(), strconv.Itoa(i), strings.Repeat("x", 10_000), 0).Err(); redis.HasErrorPrefix(err, "OOM") {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	redistest.SetUser(t, client, "limiter", redistest.AloneUser)
	for name, url := range map[string]string{
		"everybody":           server.URL(),
		"a user without INFO": "redis://limiter:secret@" + server.Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			d := doctor.Examine(t.Context(), opened(t, url))
			wantFinding(t, d, "memory", doctor.Problem, "writes are refused (OOM). Redis takes no charges")
			if err := d.Err(); err == nil || !strings.Contains(err.Error(), "doctor: memory (") {
				t.Errorf("Err is %v", err)
			}
		})
	}
}

func usedMemory(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(client.Info(t.Context(), "memory").Val(), "used_memory:")
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Evicted keys are counted.
func TestExamineEvictedKeys(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	client := server.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for i := 0; strings.Contains(client.Info(ctx, "stats").Val(), "evicted_keys:0\r\n"); i++ {
		if err := client.Set(ctx, strconv.Itoa(i), strings.Repeat("x", 100_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantFinding(t, doctor.Examine(ctx, opened(t, server.URL())), "memory", doctor.Problem, "keys evicted so far: ")
}

func TestExamineFailedSnapshot(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	// Where a directory has the file's name, no snapshot can be written.
	directory := client.ConfigGet(ctx, "dir").Val()["dir"]
	if err := os.MkdirAll(filepath.Join(directory, "dump.rdb", "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(ctx, "save", "3600 1").Err(); err != nil {
		t.Fatal(err)
	}
	_ = client.BgSave(ctx) // the status tells
	for !strings.Contains(client.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err") {
		if ctx.Err() != nil {
			t.Fatal("the snapshot has not failed")
		}
	}
	d := doctor.Examine(ctx, opened(t, server.URL()))
	wantFinding(t, d, "persistence", doctor.Notice, "MISCONF")
	wantFinding(t, d, "scripts", doctor.Problem, "could not save a snapshot")
}

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

// A server that is not known to suit is named.
func TestExamineVersion(t *testing.T) {
	for version, test := range map[string]struct {
		severity doctor.Severity
		text     string
	}{
		"7.0.15": {doctor.OK, "Redis 7.0.15"},
		"6.2.0":  {doctor.OK, "Redis 6.2.0"},
		"10.0.1": {doctor.OK, "Redis 10.0.1"},
		"6.0.16": {doctor.Problem, "6.2 or newer"},
		"5.0.7":  {doctor.Problem, "6.2 or newer"},
		"":       {doctor.Notice, "does not tell"},
	} {
		t.Run(version, func(t *testing.T) {
			addr := says(t, map[string]string{
				"hello": fmt.Sprintf("%%2\r\n$7\r\nversion\r\n$%d\r\n%s\r\n$6\r\nserver\r\n$5\r\nredis\r\n", len(version), version),
			})
			wantFinding(t, doctor.Examine(t.Context(), opened(t, "redis://"+addr)), "server", test.severity, test.text)
		})
	}
	t.Run("Valkey", func(t *testing.T) {
		addr := says(t, map[string]string{
			"hello": "%2\r\n$7\r\nversion\r\n$5\r\n8.1.3\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n",
		})
		wantFinding(t, doctor.Examine(t.Context(), opened(t, "redis://"+addr)), "server", doctor.OK, "Valkey 8.1.3")
	})
	t.Run("Valkey in its INFO", func(t *testing.T) {
		info := "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nserver_mode:standalone\r\nrole:master\r\n"
		addr := says(t, map[string]string{"info": fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)})
		wantFinding(t, doctor.Examine(t.Context(), opened(t, "redis://"+addr)), "server", doctor.OK, "Valkey 8.0.1")
	})
	t.Run("one that decides otherwise", func(t *testing.T) {
		server := miniredis.RunT(t)
		d := doctor.Examine(t.Context(), opened(t, "redis://"+server.Addr()))
		if len(d) == 0 || len(server.Keys()) > 0 {
			t.Errorf("%s\nleft %q", d, server.Keys())
		}
	})
}

// A clock that is wrong is noticed; limits do not depend on it.
func TestExamineClock(t *testing.T) {
	for name, test := range map[string]struct {
		ahead time.Duration
		want  string
	}{
		"ahead":  {time.Hour, "ahead of this machine's"},
		"behind": {-time.Hour, "behind this machine's"},
	} {
		t.Run(name, func(t *testing.T) {
			seconds := strconv.FormatInt(time.Now().Add(test.ahead).Unix(), 10)
			addr := says(t, map[string]string{"time": fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(seconds), seconds)})
			wantFinding(t, doctor.Examine(t.Context(), opened(t, "redis://"+addr)), "clock", doctor.Notice, test.want)
		})
	}
}

// says serves Redis' protocol as far as an examination needs it, with the replies given
// for some commands, and errors for the others.
func says(t *testing.T, replies map[string]string) (addr string) {
	t.Helper()
	return serve(t, func(command, last string) string {
		reply, ok := replies[command]
		if !ok {
			return "-ERR unknown command\r\n"
		}
		if bulk, ok := strings.CutPrefix(reply, "$"); ok && last == "at" { // the instant is asked for
			_, text, _ := strings.Cut(bulk, "\r\n")
			text = strings.TrimSuffix(text, "\r\n") + " 1700000000000000"
			return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		}
		return reply
	})
}

func TestExamineLatency(t *testing.T) {
	limiter := core.New(core.NewRedis(redistest.Shared(t).Client(t), core.WithBudget(time.Nanosecond)))
	wantFinding(t, doctor.Examine(t.Context(), limiter), "latency", doctor.Problem, "the budget is 1ns")
}

// Scripts that do not decide as they should are a problem, even if they run.
func TestExamineScripts(t *testing.T) {
	for name, test := range map[string]struct{ reply, want string }{
		"admits all":     {"$1\r\n0\r\n", "request 2 is allowed: true"},
		"refuses all":    {"$10\r\n9999999999\r\n", "request 1 is allowed: false"},
		"answers wrong":  {"$5\r\nhello\r\n", "no answer to the call"},
		"has no scripts": {"-ERR unknown command 'evalsha'\r\n", "does not know a command"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := says(t, map[string]string{"evalsha": test.reply, "del": ":0\r\n", "pexpireat": ":0\r\n"})
			d := doctor.Examine(t.Context(), opened(t, "redis://"+addr))
			wantFinding(t, d, "scripts", doctor.Problem, test.want)
			wantFinding(t, d, "permissions", doctor.Problem, "the server does not know")
			wantFinding(t, d, "memory", doctor.Notice, "not seen: ERR unknown command")
		})
	}
}

// A user of another prefix is told which keys they may not touch.
func TestExamineForeignPrefix(t *testing.T) {
	server := redistest.Start(t)
	redistest.SetUser(t, server.Client(t), "limiter", redistest.AloneUser)
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.MaxRetries = "limiter", "secret", -1 })
	d := doctor.Examine(t.Context(), core.New(core.NewRedis(client, core.WithPrefix("shop"))))
	wantFinding(t, d, "permissions", doctor.Problem, "ACL SETUSER <the user> ~shop:*")
	wantFinding(t, d, "scripts", doctor.Problem, "NOPERM")
}

func TestExamineMemoryStore(t *testing.T) {
	limiter := opened(t, "memory:")
	if _, err := limiter.Allow(t.Context(), "key", core.Leaky(2, core.PerHour(1))); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, doctor.Examine(t.Context(), limiter), "store", doctor.Notice, "memory: 1 keys")
	wantFinding(t, doctor.Examine(t.Context(), core.New(core.CacheDenials(core.NewMemory(), 10))), "store", doctor.Notice, "memory: 0 keys")
	_ = limiter.Close()
	wantFinding(t, doctor.Examine(t.Context(), limiter), "store", doctor.Problem, "closed")
}

func TestExamineAfterClose(t *testing.T) {
	limiter := opened(t, redistest.Shared(t).URL())
	_ = limiter.Close()
	wantFinding(t, doctor.Examine(t.Context(), limiter), "store", doctor.Problem, "closed")
}

// Another store is asked to examine itself, or else pinged.
func TestExamineOtherStores(t *testing.T) {
	wantFinding(t, doctor.Examine(t.Context(), core.New(silent{})), "store", doctor.Notice, "doctor_test.silent answers")
	wantFinding(t, doctor.Examine(t.Context(), core.New(silent{err: errors.New("asleep")})), "store", doctor.Problem, "asleep")
	wantFinding(t, doctor.Examine(t.Context(), core.New(outspoken{})), "mood", doctor.OK, "splendid")
}

type silent struct {
	core.Store

	err error
}

func (s silent) Ping(context.Context) error { return s.err }

type outspoken struct{ core.Store }

func (outspoken) Examine(context.Context) doctor.Report {
	return doctor.Report{{Name: "mood", Severity: doctor.OK, Found: "splendid"}}
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

func TestReportAsText(t *testing.T) {
	d := doctor.Report{
		{Name: "retries", Severity: doctor.OK, Found: "none"},
		{Name: "role", Server: "a:1", Severity: doctor.Problem, Found: "a replica", Meaning: "It is one.", Advice: "Leave."},
		{Name: "clock", Server: "a:1", Severity: doctor.Notice, Found: "late", Meaning: "By an hour."},
		{Name: "scripts", Server: "b:1", Severity: doctor.Problem, Found: "none"},
	}
	const text = `this process
  ok        retries      none
a:1
  problem   role         a replica
                         It is one.
                         -> Leave.
  notice    clock        late
                         By an hour.
b:1
  problem   scripts      none
`
	if got := d.String(); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	if got, want := d[1].String(), "problem: role (a:1): a replica. It is one. Leave"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := d.Err().Error(), "doctor: role (a:1): a replica. It is one. Leave\ndoctor: scripts (b:1): none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := d[2:3].Err(); err != nil {
		t.Errorf("a notice is the error %v", err)
	}
}

// serve answers commands in Redis' protocol.
func serve(t *testing.T, answer func(command, last string) string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				for lines := bufio.NewReader(connection); ; {
					command, last, err := readCommand(lines)
					if err != nil {
						return
					}
					if _, err := io.WriteString(connection, answer(command, last)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// readCommand reads a command with its arguments, and returns its name and the last of them.
func readCommand(lines *bufio.Reader) (name, last string, err error) {
	var count int
	if _, err := fmt.Fscanf(lines, "*%d\r\n", &count); err != nil {
		return "", "", err
	}
	for i := range count {
		var length int
		if _, err := fmt.Fscanf(lines, "$%d\r\n", &length); err != nil {
			return "", "", err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(lines, word); err != nil {
			return "", "", err
		}
		last = string(word[:length])
		if i == 0 {
			name = strings.ToLower(last)
		}
	}
	return name, last, nil
}
