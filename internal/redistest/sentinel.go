package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

const masterName = "ratelimit"

// Sentinel is a master and its replica, watched by one sentinel that replaces
// the master by the replica when it is gone for half a second.
type Sentinel struct {
	sentinel, master, replica *Server
}

// StartSentinel starts the three servers and waits until the replica follows the
// master and the sentinel knows both. They end with the test. Without a server
// program it does as [Start] does.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	ctx, cancel := patiently(tb)
	defer cancel()

	// By default a master waits for more replicas before it serves the first.
	master := Start(tb, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	replica := Start(tb, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	client := replica.Client(tb)
	if err := poll(ctx, func() error { return follows(ctx, client) }); err != nil {
		tb.Fatal(err)
	}

	sentinel, err := start(plan{prepare: watching(host, port)})
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { sentinel.end(tb) })
	s := &Sentinel{sentinel: sentinel, master: master, replica: replica}
	if err := poll(ctx, func() error { return s.ready(ctx) }); err != nil {
		tb.Fatal(err)
	}
	return s
}

// watching prepares a sentinel, which writes its findings to its configuration
// file and therefore does not start without one.
func watching(host, port string) func(directory string, own int) ([]string, error) {
	return func(directory string, own int) ([]string, error) {
		file := filepath.Join(directory, "sentinel.conf")
		lines := []string{
			"bind " + loopback,
			fmt.Sprintf("port %d", own),
			fmt.Sprintf("sentinel monitor %s %s %s 1", masterName, host, port),
			"sentinel down-after-milliseconds " + masterName + " 500",
			"sentinel failover-timeout " + masterName + " 2000",
			"",
		}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
		return []string{file, "--sentinel"}, nil
	}
}

// follows returns nil when a replica has caught up with its master.
func follows(ctx context.Context, replica *redis.Client) error {
	info, err := replica.Info(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("redistest: asking a replica: %w", err)
	}
	if !strings.Contains(info, "master_link_status:up\r\n") {
		return fmt.Errorf("redistest: the replica does not follow its master: %q", info)
	}
	return nil
}

// ready returns nil when the sentinel could replace the master by the replica.
func (s *Sentinel) ready(ctx context.Context) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = client.Close() }()
	replicas, err := client.Replicas(ctx, masterName).Result()
	if err != nil {
		return fmt.Errorf("redistest: asking the sentinel: %w", err)
	}
	if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
		return fmt.Errorf("redistest: the sentinel does not know the replica: %v", replicas)
	}
	return nil
}

// Addr returns the address of the sentinel itself.
func (s *Sentinel) Addr() string { return s.sentinel.Addr() }

// MasterName returns the name under which the sentinel knows the master.
func (s *Sentinel) MasterName() string { return masterName }

// Master returns the server that was the master at the start. When it is stopped
// the replica takes its place within some seconds.
func (s *Sentinel) Master() *Server { return s.master }

// Replica returns the server that was the replica at the start.
func (s *Sentinel) Replica() *Server { return s.replica }

// Client returns a client that asks the sentinel for the master, closed with the
// test. The opts change the client's options before it is made.
func (s *Sentinel) Client(tb testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	options := &redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: []string{s.Addr()},
		ContextTimeoutEnabled: true, MaxRetries: -1,
	}
	for _, change := range opts {
		change(options)
	}
	if options.Dialer == nil { // as core.Open has it
		options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
	}
	client := redis.NewFailoverClient(options)
	tb.Cleanup(func() { closeClient(tb, client) })
	return client
}
