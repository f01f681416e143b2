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

// childWork is the environment variable that makes this test binary a child of
// TestSeveralProcesses: it says the server, the prefix and the limit.
const childWork = "RATELIMIT_TEST_CHILD"

// Several processes that hammer one key are admitted exactly the limit.
func TestSeveralProcesses(t *testing.T) {
	const processes, budget = 4, 150
	server := redistest.Shared(t)
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := strings.Join([]string{server.URL(), redistest.Prefix(t), limit(budget).String()}, "\n")
			var wait sync.WaitGroup
			admitted := make([]int, processes)
			for i := range processes {
				wait.Go(func() {
					child := exec.CommandContext(t.Context(), os.Args[0])
					child.Env = append(os.Environ(), childWork+"="+work)
					child.Stderr = os.Stderr
					out, err := child.Output()
					if err != nil {
						t.Errorf("child: %v", err)
						return
					}
					if admitted[i], err = strconv.Atoi(string(out)); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			total := 0
			for _, n := range admitted {
				total += n
			}
			if total != budget {
				t.Errorf("%d processes were admitted %v, %d in all, want %d", processes, admitted, total, budget)
			}
		})
	}
}

// beChild asks from several goroutines and prints how often it was admitted.
func beChild(work string) int {
	const callers, each = 4, 25
	parts := strings.SplitN(work, "\n", 3)
	options, err := redis.ParseURL(parts[0])
	if err != nil {
		return fail(err)
	}
	limit, err := core.ParseLimit(parts[2])
	if err != nil {
		return fail(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limiter := core.New(core.NewRedis(client, core.WithPrefix(parts[1]), core.WithBudget(time.Minute)))
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		admitted int
		failure  error
	)
	for range callers {
		wait.Go(func() {
			for range each {
				d, err := limiter.Allow(context.Background(), "key", limit.(core.Quota))
				mu.Lock()
				if d.Allowed {
					admitted++
				}
				if err != nil {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if failure != nil {
		return fail(failure)
	}
	_, _ = fmt.Fprint(os.Stdout, admitted)
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
