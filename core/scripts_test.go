package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// mostScripts is how many scripts a server is ever asked to keep.
const mostScripts = 31

// Whatever is mixed in calls and in batches, a server is asked to keep a few scripts.
func TestServersKeepFewScripts(t *testing.T) {
	random := repeatable.Random(t)
	client := redistest.Start(t).Client(t)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithLogger(discard)))
	for range 20 {
		var together sync.WaitGroup
		for range 50 {
			own := repeatable.Split(random)
			together.Go(func() { doAnything(t, limiter, own) })
		}
		together.Wait()
	}
	if err := limiter.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	doctor.Examine(t.Context(), limiter)
	kept := scriptsKeptBy(t, client)
	t.Logf("%d scripts", kept)
	if kept > mostScripts {
		t.Errorf("a server was asked to keep %d scripts, want at most %d", kept, mostScripts)
	}
}

// scriptsKeptBy returns how many scripts a server keeps.
func scriptsKeptBy(t *testing.T, client *redis.Client) int {
	t.Helper()
	info := client.Info(t.Context(), "memory").Val()
	found := regexp.MustCompile(`number_of_cached_scripts:(\d+)`).FindStringSubmatch(info)
	if found == nil {
		t.Fatalf("INFO tells of no scripts:\n%s", info)
	}
	kept, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// doAnything uses one of the verbs with whatever suits it.
func doAnything(t *testing.T, limiter *core.Limiter, random *rand.Rand) {
	t.Helper()
	ctx, key := t.Context(), fmt.Sprint("user:", random.IntN(5))
	ban := core.Ban{Strikes: core.SlidingLog(3, time.Minute), Longest: time.Hour, Forget: time.Hour}
	places := core.Concurrent(10, time.Minute)
	limits := []core.Limit{ // the first eight may be reserved for a time
		core.Leaky(10, core.PerSecond(1)), core.TokenBucket(10, core.PerSecond(1)), core.GCRA(10, core.PerSecond(1)),
		core.FixedWindow(10, time.Minute), core.SlidingWindow(10, time.Minute), core.SlidingLog(10, time.Minute),
		core.Leaky(10, core.PerSecond(1)).Named("plan"), core.GCRA(10, core.PerSecond(7)).Named("plan"),
		core.Shaping(10, core.PerSecond(1)), core.Calendar(10, core.Daily("UTC")), ban.Limit(), places,
	}
	checks := make([]core.Check, 1+random.IntN(4))
	for i, place := range random.Perm(len(limits))[:len(checks)] {
		checks[i] = core.Check{Key: key, Limit: limits[place], Shadow: random.IntN(5) == 0}
		if place < 8 && random.IntN(4) == 0 {
			checks[i].ReserveFor = time.Millisecond
		}
	}
	quota, _ := limits[random.IntN(len(limits)-2)].(core.Quota)
	var err error
	switch random.IntN(9) {
	case 0, 1, 2:
		var r *core.Reservation
		if r, err = limiter.Reserve(ctx, checks...); err == nil && random.IntN(3) > 0 {
			err = r.Cancel(ctx)
		}
	case 3:
		_, _, err = limiter.AllowAtMost(ctx, key, quota, 2)
	case 4:
		_, err = limiter.Refund(ctx, key, quota, 1)
	case 5:
		err = limiter.Reset(ctx, key, limits[random.IntN(len(limits))], limits[0])
	case 6:
		_, err = limiter.Strike(ctx, key, ban, 1)
	case 7:
		err = doAsAdministrator(ctx, limiter, key, ban)
	case 8:
		var permit *core.Permit
		permit, err = limiter.TryAcquire(ctx, key, places)
		if _, denied := errors.AsType[*core.LimitedError](err); denied {
			err = nil
		} else if err == nil {
			permit.Release()
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// doAsAdministrator uses what consoles use.
func doAsAdministrator(ctx context.Context, limiter *core.Limiter, key string, ban core.Ban) error {
	if err := limiter.Ban(ctx, key, ban, time.Minute, "reason"); err != nil {
		return err
	}
	if _, _, err := admin.Bans(ctx, limiter, ban, "", ""); err != nil {
		return err
	}
	if _, err := admin.Holders(ctx, limiter, key, core.Concurrent(10, time.Minute)); err != nil {
		return err
	}
	return limiter.Lift(ctx, key, ban)
}
