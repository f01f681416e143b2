package faults_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// When a master is gone, the sentinel puts the replica in its place; what has not
// reached it is lost, and never more is admitted than the limit twice. The old master
// comes back as a replica.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel, prefix := redistest.StartSentinel(t), redistest.Prefix(t)
	limiter := func(budget bool, options ...core.Option) *core.Limiter {
		client := sentinel.Client(t, func(o *redis.FailoverOptions) {
			o.ContextTimeoutEnabled, o.MaxRetries = true, -1
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = forever, forever, forever, forever
		})
		if !budget {
			options = append(options, core.WithBudget(patient))
		}
		limiter := core.New(core.NewRedis(client, append(options, core.WithPrefix(prefix), core.WithLogger(discard))...))
		t.Cleanup(func() { _ = limiter.Close() })
		return limiter
	}
	l := begin(t, budget, limiter(true), limiter(true, core.WithBreaker(0, 0)))
	l.awaitNormal()
	sentinel.Master().Stop(t)
	replica := sentinel.Replica().Client(t)
	await(t, "the replica has taken over", func() error { // calls fail meanwhile, or wait
		info, err := replica.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "role:master") {
			err = errors.New(info)
		}
		return err
	})
	l.awaitNormal()
	sentinel.Master().Restart(t)
	l.awaitAsked(outage)
	l.awaitNormal()
	l.close(limiter(false), 1)
}
