package main

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/servertest"
)

// TestEnvoyWhileTheServiceIsKilled: callers send through a real Envoy without a pause while weir serve is killed and started again. Each is answered: by the shop or
// with 429. What weir serve admits, which a field of the response tells from what passes without it, is as much as the limit says. Only a request that was
// charged and not answered before the end of the process is missing, and each caller has one of them.
func TestEnvoyWhileTheServiceIsKilled(t *testing.T) {
	const callers, kills, limit = 4, 2, 3000
	p := behindEnvoy(t, http.HandlerFunc(serves), envoyConfig,
		"domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: year, requests_per_unit: "+strconv.Itoa(limit)+"}}\n",
		served{variables: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true"}, args: []string{"-timeout", "1m"}}, "{denying}", servertest.FreePort(t))

	var admitted, alone atomic.Int64 // by weir serve, and by Envoy alone
	var stopped atomic.Bool
	var mu sync.Mutex
	statuses := make(map[int]int)
	denied := make(map[int]bool) // the callers that were denied
	send := func(caller int, client *http.Client) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/", http.NoBody)
		if err != nil {
			return err
		}
		request.Header.Set("X-Tenant", "one")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		statuses[response.StatusCode]++
		switch asked := response.Header.Get("Ratelimit-Limit") != ""; {
		case response.StatusCode == http.StatusTooManyRequests:
			denied[caller] = true
		case response.StatusCode == http.StatusOK && asked:
			admitted.Add(1)
		case response.StatusCode == http.StatusOK:
			alone.Add(1)
		}
		return nil
	}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for !stopped.Load() {
				if err := send(caller, client); err != nil {
					t.Errorf("a request is not answered: %v", err)
					return
				}
			}
		})
	}
	stop := sync.OnceFunc(func() {
		stopped.Store(true)
		all.Wait()
	})
	t.Cleanup(stop) // also if the test fails
	comes := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(envoyPatience); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) || t.Failed() {
				t.Fatalf("it does not come that %s", what)
			}
		}
	}
	more := func(of *atomic.Int64, n int64) func() bool {
		from := of.Load()
		return func() bool { return of.Load() >= from+n }
	}
	for range kills {
		comes("weir serve admits", more(&admitted, 100))
		p.weir.kill()
		comes("requests pass without it", more(&alone, 10*callers))
		p.weir.start(t)
	}
	comes("all callers are denied", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(denied) == callers
	})
	stop()
	if got := slices.Sorted(maps.Keys(statuses)); !slices.Equal(got, []int{http.StatusOK, http.StatusTooManyRequests}) {
		t.Errorf("requests are answered %v", statuses)
	}
	if n := admitted.Load(); n > limit || n < limit-kills*callers {
		t.Errorf("weir serve admits %d requests of %d, and may lose the answers of %d", n, limit, kills*callers)
	}
}
