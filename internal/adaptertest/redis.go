package adaptertest

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var redisCases = []testCase{
	{"Redis: the same ten are served and the same eleventh is denied", testRedisEleventh},
	{"Redis: no more than n requests are inside, whichever server they come to", testRedisCrowd},
	{"Redis: one script call for each request, however many policies", testRedisRoundTrips},
}

func testRedisEleventh(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.limiter = redisLimiter(t, redistest.Start(t), f.clock)
	expectEleventh(t, f.around(f.limited(guard.Policy{Limit: ten()})), f.clock)
	for _, e := range f.events {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
	}
}

func testRedisCrowd(t *testing.T, s *suite) {
	server := redistest.Start(t)
	var limiters []*core.Limiter
	for range 2 {
		limiter := core.New(core.NewRedis(server.Client(t), core.WithBudget(10*time.Second)))
		defer limiter.Close()
		limiters = append(limiters, limiter)
	}
	s.crowd(t, 0, limiters...)
	s.crowd(t, time.Minute, limiters...)
}

func testRedisRoundTrips(t *testing.T, s *suite) {
	server, f := redistest.Start(t), s.fixture(t)
	f.limiter = redisLimiter(t, server, f.clock)
	h := f.around(f.limited(
		guard.Policy{Limit: ten()},
		guard.Policy{Limit: core.FixedWindow(3, time.Minute).Named("minute"), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)},
		guard.Policy{Limit: core.GCRA(5, core.PerSecond(5)), By: keyfuncs.Global},
	))
	get(h)
	evals, shas := server.Calls(t, "eval"), server.Calls(t, "evalsha")
	if evals > 1 || shas > 1 {
		t.Errorf("the first request called EVAL %d times and EVALSHA %d times, want at most one each", evals, shas)
	}
	get(h)
	get(h)
	expect(t, "the fourth", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=7;t=7, "minute";r=0;t=60, "gcra:5:5/s";r=2;t=1
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "minute";q=3;w=60, "gcra:5:5/s";q=5;w=1
Retry-After: 60

`+quotaExceeded+`["minute"]}
`)
	if got := server.Calls(t, "evalsha") - shas; got != 3 {
		t.Errorf("three more requests called EVALSHA %d times, want 3", got)
	}
	if got := server.Calls(t, "eval"); got != evals {
		t.Errorf("EVAL was called %d times after the first request, want none", got-evals)
	}
}

func redisLimiter(t *testing.T, server *redistest.Server, c *clock) *core.Limiter {
	return core.New(core.NewRedis(server.Client(t), core.WithClock(c.now), core.WithBudget(10*time.Second)))
}
