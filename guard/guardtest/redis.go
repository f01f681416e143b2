package guardtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var redisCases = []testCase{
	{"Redis: the same ten are served and the same eleventh is denied", testRedisEleventh},
	{"Redis: no more than n requests are inside, whichever server they come to", testRedisCrowd},
	{"Redis: one script call for each request, however many policies", testRedisRoundTrips},
}

func testRedisEleventh(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.limiter = redisLimiter(t, s.startRedis(t), f.clock)
	expectEleventh(t, f.around(f.limited(guard.Policy{Limit: ten()})), f.clock)
	for _, e := range f.events {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
	}
}

func testRedisCrowd(t *testing.T, s *suite) {
	url := s.startRedis(t)
	var limiters []*core.Limiter
	for range 2 {
		limiter := core.New(core.NewRedis(redisClient(t, url), core.WithBudget(10*time.Second)))
		defer limiter.Close()
		limiters = append(limiters, limiter)
	}
	s.crowd(t, 0, limiters...)
	s.crowd(t, time.Minute, limiters...)
}

func testRedisRoundTrips(t *testing.T, s *suite) {
	url, f := s.startRedis(t), s.fixture(t)
	client := redisClient(t, url)
	f.limiter = redisLimiter(t, url, f.clock)
	h := f.around(f.limited(
		guard.Policy{Limit: ten()},
		guard.Policy{Limit: core.FixedWindow(3, time.Minute).Named("minute"), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)},
		guard.Policy{Limit: core.GCRA(5, core.PerSecond(5)), By: keyfuncs.Global},
	))
	get(h)
	evals, shas := redisCalls(t, client, "eval"), redisCalls(t, client, "evalsha")
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
	if got := redisCalls(t, client, "evalsha") - shas; got != 3 {
		t.Errorf("three more requests called EVALSHA %d times, want 3", got)
	}
	if got := redisCalls(t, client, "eval"); got != evals {
		t.Errorf("EVAL was called %d times after the first request, want none", got-evals)
	}
}

// startRedis returns the URL of an empty server, or skips the test if there is none.
func (s *suite) startRedis(t *testing.T) (url string) {
	t.Helper()
	if s.redis == nil {
		t.Skip("the adapter names no Redis server")
	}
	return s.redis(t)
}

// redisClient returns a client of its own of a server.
func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func redisLimiter(t *testing.T, url string, c *clock) *core.Limiter {
	t.Helper()
	return core.New(core.NewRedis(redisClient(t, url), core.WithClock(c.now), core.WithBudget(10*time.Second)))
}

// redisCalls returns how often a server has been asked a command.
func redisCalls(t *testing.T, client *redis.Client, command string) (calls int) {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if counts, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			if _, err := fmt.Sscanf(counts, "%d", &calls); err != nil {
				t.Fatal(err)
			}
		}
	}
	return calls
}
