package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// keepsAll are the arguments of a server that has written down what it answers.
var keepsAll = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Whatever becomes of the server, a call ends within its budget, what is charged
// is what was admitted, and all is normal when the server is.
func TestServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		arguments []string
		begin     func(t *testing.T, s *site)
		end       func(t *testing.T, s *site)
		kind      core.Failure // of some of the calls that fail
		losses    int          // how often the server lost its data
		since     int          // the first major version that can be brought to it
	}{
		{
			name:  "frozen",
			begin: func(t *testing.T, s *site) { s.server.Pause(t) },
			end:   func(t *testing.T, s *site) { s.server.Resume(t) },
			kind:  core.TimedOut,
		},
		{
			name:      "killed, and started again with its data",
			arguments: keepsAll,
			begin:     func(t *testing.T, s *site) { s.server.Stop(t) },
			end:       func(t *testing.T, s *site) { s.server.Restart(t) },
			kind:      core.Unreachable,
		},
		{
			name:   "killed, and started again without its data",
			begin:  func(t *testing.T, s *site) { s.server.Stop(t) },
			end:    func(t *testing.T, s *site) { s.server.Restart(t) },
			kind:   core.Unreachable,
			losses: 1,
		},
		{
			name:  "paused by CLIENT PAUSE",
			begin: func(t *testing.T, s *site) { s.do(t, "CLIENT", "PAUSE", "60000", "WRITE") },
			end:   func(t *testing.T, s *site) { s.do(t, "CLIENT", "UNPAUSE") },
			kind:  core.TimedOut,
		},
		{
			name:  "out of memory",
			begin: func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "maxmemory", "1") },
			end:   func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "maxmemory", "0") },
			kind:  "out-of-memory",
		},
		{
			name:  "a replica",
			begin: func(t *testing.T, s *site) { s.follow(t, redistest.Start(t, noDelay...)) },
			end:   func(t *testing.T, s *site) { s.do(t, "REPLICAOF", "NO", "ONE") },
			kind:  "read-only",
			// To follow a master is to forget one's own data.
			losses: 1,
		},
		{
			name:      "a replica that has lost its master",
			arguments: []string{"--replica-serve-stale-data", "no"},
			begin:     func(t *testing.T, s *site) { s.do(t, "REPLICAOF", "127.0.0.1", "1") },
			end:       func(t *testing.T, s *site) { s.do(t, "REPLICAOF", "NO", "ONE") },
			kind:      "cluster-down",
		},
		{
			name:      "without enough replicas",
			arguments: []string{"--min-replicas-max-lag", "1"},
			begin:     func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "min-replicas-to-write", "1") },
			end:       func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "min-replicas-to-write", "0") },
			kind:      "misconfigured",
		},
		{
			name:      "unable to write to its disk",
			arguments: []string{"--save", "3600", "1000000"},
			begin:     func(t *testing.T, s *site) { s.obstruct(t); s.save(t, "err") },
			end:       func(t *testing.T, s *site) { s.unobstruct(t); s.save(t, "ok") },
			kind:      "misconfigured",
		},
		{
			name: "asking for a password",
			begin: func(t *testing.T, s *site) {
				s.do(t, "CONFIG", "SET", "requirepass", "secret")
				s.do(t, "CLIENT", "KILL", "TYPE", "normal")
			},
			end:  func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "requirepass", "") },
			kind: "not-permitted",
		},
		{
			name:  "forbidding scripts",
			begin: func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "-evalsha") },
			end:   func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "+evalsha") },
			kind:  "not-permitted",
		},
		{
			name: "forbidding what scripts do",
			begin: func(t *testing.T, s *site) {
				s.do(t, "ACL", "SETUSER", "default", "-hmget", "-get", "-lindex", "-llen")
			},
			end:  func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "+@all") },
			kind: "not-permitted",
		},
		{
			name:  "forbidding the keys",
			begin: func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "resetkeys", "~other:*") },
			end:   func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "allkeys") },
			kind:  "not-permitted",
		},
		{
			name:      "busy with somebody's script",
			arguments: []string{"--lua-time-limit", "10"},
			begin: func(t *testing.T, s *site) {
				other := s.server.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = patience, -1 })
				go other.Eval(t.Context(), "while true do end", nil)
			},
			end:  func(t *testing.T, s *site) { s.do(t, "SCRIPT", "KILL") },
			kind: "busy",
		},
		{
			name:      "loading its data",
			arguments: []string{"--enable-debug-command", "yes", "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"},
			begin: func(t *testing.T, s *site) {
				s.do(t, "DEBUG", "POPULATE", "10000", "ballast", "100") // loaded for 50s
				s.do(t, "SAVE")
				s.server.Restart(t)
			},
			end:    func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "key-load-delay", "0") },
			kind:   "loading",
			losses: 1,
			since:  7, // before, a server that loads answers too seldom to be told from one that hangs
		},
		{
			name:  "of an unknown mind",
			begin: func(t *testing.T, s *site) { s.proxy.Set(replying("-WHATEVER it is\r\n")) },
			end:   func(t *testing.T, s *site) { s.proxy.Heal() },
			kind:  "other",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if major := redistest.Major(t); major < test.since {
				t.Skipf("Redis %d cannot be brought to it, Redis %d can", major, test.since)
			}
			s := newSite(t, test.arguments...)
			l := begin(t, budget, s.limiters(t)...)
			l.awaitNormal()
			test.begin(t, s)
			l.awaitFailures(outage)
			l.await("the failure is told apart", func() bool { return l.seen(test.kind) })
			l.await("the server is spared", func() bool { return l.seen(core.Suspended) })
			test.end(t, s)
			l.awaitNormal()
			l.close(s.reader(t), test.losses)
		})
	}
}

// noDelay are the arguments of a master that serves a replica at once.
var noDelay = []string{"--repl-diskless-sync-delay", "0"}

// follow makes the server a replica, and returns when it is one that serves.
func (s *site) follow(t *testing.T, master *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	s.do(t, "REPLICAOF", host, port)
	await(t, "the replica follows", func() error {
		info, err := s.admin.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up\r\n") {
			err = fmt.Errorf("%q", info)
		}
		return err
	})
}

// obstruct puts a directory where the server wants to write its data.
func (s *site) obstruct(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dump(t), "obstacle"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (s *site) unobstruct(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(s.dump(t)); err != nil {
		t.Fatal(err)
	}
}

// dump returns the name of the file that the server saves its data to.
func (s *site) dump(t *testing.T) string {
	t.Helper()
	directory := s.admin.ConfigGet(t.Context(), "dir").Val()["dir"]
	if directory == "" {
		t.Fatal("the server does not tell its directory")
	}
	return filepath.Join(directory, "dump.rdb")
}

// save has the server save its data, and waits until it reports how that went.
func (s *site) save(t *testing.T, status string) {
	t.Helper()
	await(t, "the data has been saved", func() error {
		s.admin.BgSave(t.Context())
		info, err := s.admin.Info(t.Context(), "persistence").Result()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:"+status+"\r\n") {
			err = fmt.Errorf("%q", info)
		}
		return err
	})
}

// Scripts that the server forgets are sent again before anybody notices.
func TestServerForgetsItsScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := begin(t, patient, s.heeding(t, patient), s.ignoring(t, patient))
	l.awaitNormal()
	for range 20 {
		s.do(t, "SCRIPT", "FLUSH")
		l.awaitAsked(2 * callers)
	}
	l.awaitNormal()
	l.close(s.reader(t), 0)
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d calls failed: %v", n, l.failures)
	}
}

// Clients that are killed lose no more than the calls that were in flight.
func TestServerKillsItsClients(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := begin(t, budget, s.limiters(t)...)
	l.awaitNormal()
	for range 20 {
		s.do(t, "CLIENT", "PAUSE", "60000", "WRITE")
		await(t, "calls are in flight", func() error {
			info, err := s.admin.Info(t.Context(), "clients").Result()
			if err == nil && strings.Contains(info, "blocked_clients:0\r\n") {
				err = fmt.Errorf("%q", info)
			}
			return err
		})
		s.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		s.do(t, "CLIENT", "UNPAUSE")
		l.awaitAsked(callers)
	}
	l.await("the failure is told apart", func() bool { return l.seen(core.Unreachable) })
	l.awaitNormal()
	l.close(s.reader(t), 0)
	for kind, err := range l.failures {
		if kind != core.Unreachable && kind != core.Suspended && kind != core.TimedOut { // the last on a busy machine
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func (l *load) seen(kind core.Failure) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[kind] != nil
}
