package lists_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The two states of a list that is replaced all the time. One has a client by its address, the other by its
// key: whoever asks both about the address and then the new one about the key, or the other way round, may
// find neither.
var byAddressOrKey = [2][]string{{"203.0.113.1", "198.51.100.0/24"}, {"key:user:42", "192.0.2.0/24"}}

// replaced are sources whose content a test replaces, each in one step.
var replaced = map[string]func(t *testing.T) (source lists.Source, replace func(entries []string)){
	"file": func(t *testing.T) (lists.Source, func([]string)) {
		path := filepath.Join(t.TempDir(), "list.txt")
		return lists.File(path), func(entries []string) { write(t, path, entries[0]+"\n"+entries[1]+"\n") }
	},
	"redis": func(t *testing.T) (lists.Source, func([]string)) {
		client, key := redistest.Shared(t).Client(t), redistest.Prefix(t)+"list"
		return lists.Redis(client, key), func(entries []string) {
			_, err := client.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
				p.Del(context.Background(), key)
				p.SAdd(context.Background(), key, entries[0], entries[1])
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	},
}

// While a list is reloaded as fast as it can be, many requests of one client meet it: each sees the one or the
// other, and never parts of both, nor none.
func TestEachRequestSeesOneListWhileItIsReloaded(t *testing.T) {
	const clients, swaps = 64, 50
	for name, source := range replaced {
		for _, status := range []int{0, http.StatusForbidden} {
			t.Run(fmt.Sprint(name, "/", status), func(t *testing.T) {
				read, replace := source(t)
				replace(byAddressOrKey[0])
				var swapped, strayed atomic.Int64
				ctx, end := context.WithCancel(t.Context())
				live, err := lists.Watch(ctx, func(ctx context.Context) (*lists.List, error) {
					list, err := read(ctx)
					if list != nil {
						swapped.Add(1)
					}
					return list, err
				}, lists.WatchOptions{Every: 100 * time.Microsecond, OnError: func(err error) {
					if ctx.Err() == nil {
						t.Error(err)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				byUser := keyfuncs.User(func(*http.Request) string { return "42" })
				found := guard.Lists{Deny: live, By: byUser}
				if status == 0 {
					found = guard.Lists{Allow: live, By: byUser}
				}
				limiter := core.New(core.NewMemory())
				defer limiter.Close()
				handler := ratelimit.New(limiter, ratelimit.Options{Lists: found, Observe: func(e ratelimit.Event) {
					if !e.Listed || e.Status != status {
						strayed.Add(1)
					}
				}}, ratelimit.Policy{Limit: core.Leaky(1, core.PerHour(1))})(http.NotFoundHandler())
				var requests sync.WaitGroup
				for range clients {
					requests.Go(func() {
						r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
						r.RemoteAddr = "203.0.113.1:1234"
						for ctx.Err() == nil {
							handler.ServeHTTP(httptest.NewRecorder(), r)
							time.Sleep(10 * time.Microsecond) // or the one that reads would starve
						}
					})
				}
				for i := 1; i <= swaps && strayed.Load() == 0 && !t.Failed(); i++ {
					before := swapped.Load()
					replace(byAddressOrKey[i%2])
					for swapped.Load() == before && !t.Failed() {
						time.Sleep(50 * time.Microsecond)
					}
				}
				end()
				requests.Wait()
				if n := strayed.Load(); n > 0 {
					t.Errorf("%d requests were not decided with %d by the list, after %d swaps", n, status, swapped.Load())
				}
			})
		}
	}
}

// A lookup of an address and a key is one look at one list, however often the list is swapped.
func TestALookupSeesOneList(t *testing.T) {
	live, both := new(lists.Live), [2]*lists.List{lists.Of(byAddressOrKey[0]...), lists.Of(byAddressOrKey[1]...)}
	live.Swap(both[0])
	var ended atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 1; !ended.Load(); i++ {
			live.Swap(both[i%2])
		}
	})
	for deadline := time.Now().Add(300 * time.Millisecond); !t.Failed() && time.Now().Before(deadline); {
		if !live.Has(first, "user:42") {
			t.Error("the address is looked up in one list, and the key in another")
		}
	}
	ended.Store(true)
	swapping.Wait()
}
