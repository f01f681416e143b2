package admin_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestHoldersOnEveryStore(t *testing.T) {
	alone, cluster := redistest.Start(t).Client(t), redistest.StartCluster(t).Client(t)
	stepped := time.Unix(1_800_000_000, 0)
	for name, store := range map[string]core.Store{
		"memory":       core.NewMemory(),
		"redis":        core.NewRedis(alone, core.WithBudget(patient)),
		"test's clock": core.NewRedis(alone, core.WithBudget(patient), core.WithPrefix("other"), core.WithClock(func() time.Time { return stepped })),
		"cluster":      core.NewRedis(cluster, core.WithBudget(patient)),
		"denial cache": denialcache.New(core.NewMemory(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			l, ctx := core.New(store), t.Context()
			limit, began := core.Concurrent(5, time.Minute).Named("exports"), time.Now()
			if name == "test's clock" {
				began = stepped
			}
			take := func(places int) core.Settlement {
				check := core.Check{Key: "tenant:7", Limit: limit, Cost: places}
				calls := []core.Call{{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}}
				if _, err := store.Decide(ctx, calls); err != nil || !calls[0].Decisions[0].Allowed {
					t.Fatalf("%+v, %v", calls[0].Decisions[0], err)
				}
				return core.Settlement{Check: check, Receipt: calls[0].Receipts[0], Renew: true}
			}
			if got, err := admin.Holders(ctx, l, "tenant:7", limit); err != nil || len(got) > 0 {
				t.Fatalf("%v, %v, want nobody yet", got, err)
			}
			three := take(3)
			if name != "test's clock" {
				for at := time.Now(); time.Since(at) < 2*time.Microsecond; { // so that their leases end in this order
					runtime.Gosched()
				}
			} else {
				stepped = stepped.Add(2 * time.Millisecond)
			}
			take(1)
			got, err := admin.Holders(ctx, l, "tenant:7", core.Concurrent(1, time.Second).Named("exports"))
			if err != nil || len(got) != 2 || got[0].Places != 3 || got[1].Places != 1 {
				t.Fatalf("%+v, %v, want one with 3 places and one with 1", got, err)
			}
			host, _ := os.Hostname()
			for _, h := range got {
				if left := h.Until.Sub(began); left < time.Minute-time.Second || left > time.Minute+30*time.Second {
					t.Errorf("%+v: the lease ends %v after it began", h, left)
				}
				if age := time.Since(h.Since); age < 0 || age > time.Minute {
					t.Errorf("%+v: asked %v ago", h, age)
				}
				if h.Host == "" || len(host) > 0 && len(h.Host) > 10 || !strings.HasPrefix(h.Name, h.Host+".") {
					t.Errorf("%+v: the host is %q", h, host)
				}
			}
			if other, err := admin.Holders(ctx, l, "tenant:8", limit); err != nil || len(other) > 0 {
				t.Errorf("%v, %v under another key", other, err)
			}

			if evicted, err := admin.Evict(ctx, l, "tenant:7", limit, got[0].Name); err != nil || !evicted {
				t.Fatalf("evicted %t, %v", evicted, err)
			}
			if evicted, err := admin.Evict(ctx, l, "tenant:7", limit, got[0].Name); err != nil || evicted {
				t.Errorf("evicted again: %t, %v", evicted, err)
			}
			renewals := []core.Settlement{three}
			if err := store.Settle(ctx, renewals); err != nil || !renewals[0].Lost {
				t.Errorf("renewed after an eviction: %+v, %v", renewals[0], err)
			}
			if left, err := admin.Holders(ctx, l, "tenant:7", limit); err != nil || len(left) != 1 || left[0].Name != got[1].Name {
				t.Errorf("%+v, %v, want the other holder alone", left, err)
			}
			if d, err := l.Peek(ctx, "tenant:7", limit); err != nil || d.Remaining != 4 {
				t.Errorf("%+v, %v, want 4 of 5 free", d, err)
			}

			for _, bad := range []string{"", ".", "web", got[1].Name + "/2"} {
				if _, err := admin.Evict(ctx, l, "tenant:7", limit, bad); err == nil {
					t.Errorf("the name %q is no error", bad)
				}
			}
			if _, err := admin.Holders(ctx, l, "", limit); err == nil {
				t.Error("an empty key is no error")
			}
			for _, bad := range []core.Places{{}, core.Concurrent(0, time.Second)} {
				if _, err := admin.Holders(ctx, l, "tenant:7", bad); err == nil {
					t.Errorf("%s is no error", bad)
				}
			}
			_ = l.Close()
			if _, err := admin.Holders(ctx, l, "tenant:7", limit); core.FailureOf(err) != core.Closed {
				t.Errorf("%v after Close", err)
			}
		})
	}
}

func TestHoldersOfAStoreThatCannot(t *testing.T) {
	l, limit := core.New(plain{core.NewMemory()}), core.Concurrent(1, time.Second)
	if _, err := admin.Holders(t.Context(), l, "key", limit); err == nil {
		t.Error("listing is no error")
	}
	if _, err := admin.Evict(t.Context(), l, "key", limit, "web.k3x9a.hoe3f6s1ym"); err == nil {
		t.Error("evicting is no error")
	}
}
