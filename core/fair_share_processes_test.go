package core_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// childTenant is the environment variable that makes this test binary a tenant of TestTenantsInSeveralProcesses: it says the server,
// the prefix, the tenant and its weight.
const childTenant = "RATELIMIT_TEST_TENANT"

// The tenants share a limit until so many of their calls were admitted, which takes two seconds.
var shared = core.TokenBucket(100, core.PerSecond(300))

const sharedCalls = 700

// Several processes that ask without end on a real server get the same share of a limit, and one with twice the weight gets twice as
// much. The shares of the laws are exact; here a process may get less while the machine gives it no time.
func TestTenantsInSeveralProcesses(t *testing.T) {
	server, weights := redistest.Shared(t), []int{1, 1, 1, 2}
	prefix := redistest.Prefix(t)
	admitted := make([]int, len(weights))
	var wait sync.WaitGroup
	for i, weight := range weights {
		wait.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%d", childTenant, server.URL(), prefix, i, weight))
			child.Stderr = os.Stderr
			out, err := child.Output()
			if err != nil {
				t.Errorf("tenant %d: %v", i, err)
				return
			}
			if admitted[i], err = strconv.Atoi(string(out)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	total, heaviest := 0, 0
	for i, n := range admitted {
		total += n
		heaviest += weights[i]
	}
	for i, n := range admitted {
		if want := total * weights[i] / heaviest; n < want*3/4 || n > want*5/4 {
			t.Errorf("tenant %d of %v was admitted %d, want about %d", i, admitted, n, want)
		}
	}
}

// beTenant asks until enough calls of all tenants were admitted, and prints how often it was admitted. It begins when all have come.
func beTenant(work string) int {
	parts := strings.Split(work, "\n")
	options, err := redis.ParseURL(parts[0])
	if err != nil {
		return fail(err)
	}
	weight, err := strconv.Atoi(parts[3])
	if err != nil {
		return fail(err)
	}
	ctx, client := context.Background(), redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limiter := core.New(core.NewRedis(client, core.WithPrefix(parts[1]), core.WithBudget(time.Minute)))
	if err := client.Incr(ctx, parts[1]+"tenants").Err(); err != nil {
		return fail(err)
	}
	for client.Get(ctx, parts[1]+"tenants").Val() != "4" {
		time.Sleep(time.Millisecond) // the test's end ends the process, too
	}
	admitted, all := 0, 0
	for all < sharedCalls {
		decisions, err := limiter.AllowAll(ctx, core.FairShare(core.Check{Key: "shared", Limit: shared}, parts[2], weight)...)
		if err != nil {
			return fail(err)
		}
		by := int64(0)
		if _, denied := core.Denied(decisions); !denied {
			admitted, by = admitted+1, 1
		}
		calls, err := client.IncrBy(ctx, parts[1]+"calls", by).Result()
		if all = int(calls); err != nil {
			return fail(err)
		}
	}
	_, _ = fmt.Fprint(os.Stdout, admitted)
	return 0
}
