package admin_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestBansOnEveryStore(t *testing.T) {
	for name, store := range map[string]core.Store{
		"memory":       core.NewMemory(),
		"redis":        core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient)),
		"cluster":      core.NewRedis(redistest.StartCluster(t).Client(t), core.WithBudget(patient)),
		"denial cache": denialcache.New(core.NewMemory(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			l, ctx := core.New(store), t.Context()
			brute := core.Ban{Strikes: core.SlidingLog(2, time.Minute), First: time.Hour}.Named("brute")
			other := core.Ban{Strikes: core.SlidingLog(2, time.Minute), First: time.Hour}.Named("other")
			want := make(map[string]admin.Banned)
			for i := range 30 {
				key := fmt.Sprint("user:", i)
				if i%3 == 0 { // one strike, which bans nobody, or two
					if _, err := l.Strike(ctx, key, brute, 1+i%2); err != nil {
						t.Fatal(err)
					}
				}
				if i%6 == 3 {
					want[key] = admin.Banned{Key: key, Bans: 1}
				}
			}
			if err := l.Ban(ctx, "user:by hand", brute, 2*time.Hour, "scraping, see ticket 7"); err != nil {
				t.Fatal(err)
			}
			want["user:by hand"] = admin.Banned{Key: "user:by hand", Reason: "scraping, see ticket 7"}
			if _, err := l.Strike(ctx, "user:else", other, 2); err != nil {
				t.Fatal(err)
			}
			list := func() map[string]admin.Banned {
				t.Helper()
				got := make(map[string]admin.Banned)
				for cursor := ""; ; {
					page, next, err := admin.Bans(ctx, l, brute, "user:", cursor)
					if err != nil {
						t.Fatal(err)
					}
					for _, b := range page {
						if length := b.Until.Sub(b.Since); length < time.Hour || length > 2*time.Hour || time.Until(b.Until) > length {
							t.Errorf("%+v lasts %v", b, length)
						}
						b.Since, b.Until = time.Time{}, time.Time{}
						got[b.Key] = b
					}
					if cursor = next; cursor == "" {
						return got
					}
				}
			}
			if got := list(); !maps.Equal(got, want) {
				t.Errorf("listed %v, want %v", got, want)
			}
			for key := range want {
				if err := l.Lift(ctx, key, brute); err != nil {
					t.Fatal(err)
				}
			}
			if got := list(); len(got) > 0 {
				t.Errorf("listed %v after all were lifted", got)
			}
			if _, _, err := admin.Bans(ctx, l, core.Ban{}, "", ""); err == nil {
				t.Error("the zero Ban is no error")
			}
		})
	}
	if _, _, err := admin.Bans(t.Context(), core.New(plain{core.NewMemory()}), core.Ban{Strikes: core.SlidingLog(1, time.Minute)}, "", ""); err == nil {
		t.Error("a store that cannot list is no error")
	}
}
