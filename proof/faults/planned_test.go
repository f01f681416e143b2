package faults_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A failover whose writes were paused until the replica had caught up loses nothing. It logs what others lose.
func TestFailoverOfPausedWritesLosesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replace  func(t *testing.T, s *redistest.Sentinel)
		lossless bool
	}{
		"planned, and writes are paused before": {plannedWithAPause, true},
		"planned":                               {planned, false},
		"the master stops":                      {func(t *testing.T, s *redistest.Sentinel) { t.Helper(); s.Master().Stop(t) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t)
			lost, failed, took := lostIn(t, s, func() { test.replace(t, s) })
			t.Logf("%s: %d charges lost, %d calls failed, and nobody was answered for %v", name, lost, failed, took)
			if test.lossless && lost > 0 {
				t.Errorf("%d charges were lost that had been answered", lost)
			}
		})
	}
}

// planned has the sentinel replace a master that works.
func planned(t *testing.T, s *redistest.Sentinel) {
	t.Helper()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer sentinel.Close()
	if err := sentinel.Failover(t.Context(), s.MasterName()).Err(); err != nil {
		t.Fatal(err)
	}
}

// plannedWithAPause pauses writes, waits until the replica has caught up, and has the sentinel replace the master.
func plannedWithAPause(t *testing.T, s *redistest.Sentinel) {
	t.Helper()
	master, replica := s.Master().Client(t), s.Replica().Client(t)
	if err := master.Do(t.Context(), "client", "pause", 30_000, "write").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the replica has caught up", func() error {
		ahead, behind := offset(t, master, "master_repl_offset"), offset(t, replica, "slave_repl_offset")
		if ahead != behind {
			return errors.New("it is at " + behind + ", and the master at " + ahead)
		}
		return nil
	})
	planned(t, s)
}

// offset returns a line of what a server says of its replication.
func offset(t *testing.T, client *redis.Client, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(client.Info(t.Context(), "replication").Val(), name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// pace is how long each of sixteen callers rests between two calls: some calls are always under way, and processors are left to others.
const pace = 20 * time.Millisecond

// lostIn returns how many charges are lost that had been answered, while a master is replaced under load, how many calls
// failed, and for how long nobody was answered.
func lostIn(t *testing.T, s *redistest.Sentinel, replace func()) (lost, failed int64, longest time.Duration) {
	t.Helper()
	prefix, limit := redistest.Prefix(t), core.FixedWindow(100_000_000, 24*time.Hour)
	open := func(options ...core.Option) *core.Limiter {
		client := s.Client(t, func(o *redis.FailoverOptions) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
		limiter := core.New(core.NewRedis(client, append(options, core.WithPrefix(prefix), core.WithLogger(discard))...))
		t.Cleanup(func() { _ = limiter.Close() })
		return limiter
	}
	limiter := open()
	ctx, stop := context.WithCancel(t.Context())
	var answered, failures, latest, gap atomic.Int64
	latest.Store(time.Now().UnixMicro())
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pace) {
				if _, err := limiter.Allow(t.Context(), "key", limit); err != nil {
					failures.Add(1)
					continue
				}
				answered.Add(1)
				now := time.Now().UnixMicro()
				if since := now - latest.Swap(now); since > gap.Load() {
					gap.Store(since)
				}
			}
		})
	}
	reach := func(more int64) {
		from := answered.Load()
		await(t, "calls are answered", func() error {
			if answered.Load() < from+more {
				return errors.New("too few are")
			}
			return nil
		})
	}
	reach(2000)
	master := s.Master().Client(t)
	gap.Store(0)
	replace()
	replica := s.Replica().Client(t)
	await(t, "the replica has taken over", func() error {
		info, err := replica.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "role:master") {
			err = errors.New(info)
		}
		return err
	})
	await(t, "the old master is one no more", func() error {
		info, err := master.Info(t.Context(), "replication").Result()
		if err == nil && strings.Contains(info, "role:master") {
			return errors.New(info)
		}
		return nil // or gone
	})
	reach(2000)
	stop()
	group.Wait()
	d, err := open(core.WithBudget(patient)).Peek(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	return max(0, answered.Load()-int64(100_000_000-d.Remaining)), failures.Load(), time.Duration(gap.Load()) * time.Microsecond
}
