package doctor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

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
		{"0", "allkeys-lru", doctor.Notice, "Set maxmemory to a bound, such as CONFIG SET maxmemory 256mb"},
		{"1gb", "noeviction", doctor.OK, "1024.0 MB"},
		{"1gb", "allkeys-lru", doctor.Problem, "like anything else"},
		{"1gb", "allkeys-random", doctor.Problem, "like anything else"},
		{"1gb", "volatile-ttl", doctor.Problem, "time to live"},
		{"1gb", "volatile-lfu", doctor.Problem, "time to live"},
		{"4mb", "noeviction", doctor.Notice, "When it is full"},
	} {
		t.Run(test.policy+" "+test.most, func(t *testing.T) {
			for name, value := range map[string]string{"maxmemory": test.most, "maxmemory-policy": test.policy} {
				if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.most == "4mb" { // fill it, but not quite
				for i := 0; usedMemory(t, client) < 19*(4<<20)/20; i++ {
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

// Scripts that do not decide as they should are a problem, even if they run.
func TestExamineScripts(t *testing.T) {
	for name, test := range map[string]struct{ reply, want string }{
		"admits all":     {"$5\r\n0 1 1\r\n", "request 2 is allowed: true"},
		"refuses all":    {"$14\r\n9999999999 0 0\r\n", "request 1 is allowed: false"},
		"answers wrong":  {"$5\r\nhello\r\n", "no answer to the call"},
		"has no scripts": {"-ERR unknown command 'evalsha'\r\n", "does not know a command"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := says(t, map[string]string{"evalsha": test.reply, "unlink": ":0\r\n", "pexpireat": ":0\r\n"})
			d := doctor.Examine(t.Context(), opened(t, "redis://"+addr))
			wantFinding(t, d, "scripts", doctor.Problem, test.want)
			wantFinding(t, d, "permissions", doctor.Problem, "the server does not know")
			wantFinding(t, d, "memory", doctor.Notice, "not seen: ERR unknown command")
		})
	}
}

// The report tells a user of another prefix which keys they may not touch.
func TestExamineForeignPrefix(t *testing.T) {
	server := redistest.Start(t)
	redistest.SetUser(t, server.Client(t), "limiter", redistest.AloneUser)
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.MaxRetries = "limiter", "secret", -1 })
	d := doctor.Examine(t.Context(), core.New(core.NewRedis(client, core.WithPrefix("shop"))))
	wantFinding(t, d, "permissions", doctor.Problem, "ACL SETUSER <the user> ~shop:*")
	wantFinding(t, d, "scripts", doctor.Problem, "NOPERM")
}

// Balances have been paid for: a server has to write an append-only file, and memory is no place for them.
func TestExamineBalances(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	look := func(url string, severity doctor.Severity, text string) {
		t.Helper()
		wantFinding(t, doctor.ExamineBalances(t.Context(), opened(t, url)), "persistence", severity, text)
	}
	look(server.URL(), doctor.Problem, "no append-only file")
	wantFinding(t, doctor.Examine(t.Context(), opened(t, server.URL())), "persistence", doctor.OK, "limits need none")
	redistest.SetUser(t, client, "limiter", redistest.AloneUser)
	look("redis://limiter:secret@"+server.Addr(), doctor.Notice, "Let an administrator look that appendonly is yes")
	if err := client.ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	look(server.URL(), doctor.OK, "an append-only file")
	look("memory:", doctor.Problem, "this process's memory")
}
