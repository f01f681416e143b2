package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
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

func TestExamineMemoryStore(t *testing.T) {
	limiter := opened(t, "memory:")
	if _, err := limiter.Allow(t.Context(), "key", core.Leaky(2, core.PerHour(1))); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, doctor.Examine(t.Context(), limiter), "store", doctor.Notice, "memory: 1 keys")
	wantFinding(t, doctor.Examine(t.Context(), core.New(denialcache.New(core.NewMemory(), 10))), "store", doctor.Notice, "memory: 0 keys")
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
