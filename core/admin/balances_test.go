package admin_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

var credits = core.Balance().Named("credits")

// allBalances returns the balances of a limiter by their keys.
func allBalances(t *testing.T, l *core.Limiter, prefix string) map[string]admin.Balance {
	t.Helper()
	got := make(map[string]admin.Balance)
	for cursor := ""; ; {
		page, next, err := admin.Balances(t.Context(), l, credits, prefix, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page {
			got[b.Key] = b
		}
		if cursor = next; cursor == "" {
			return got
		}
	}
}

func topUp(t *testing.T, l *core.Limiter, key string, balance core.Quota, n int, id string) {
	t.Helper()
	if _, _, err := l.TopUp(t.Context(), key, balance, n, id); err != nil {
		t.Fatal(err)
	}
}

func TestBalancesOnEveryStore(t *testing.T) {
	for name, store := range map[string]core.Store{
		"memory":       core.NewMemory(),
		"redis":        core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient)),
		"cluster":      core.NewRedis(redistest.StartCluster(t).Client(t), core.WithBudget(patient)),
		"denial cache": denialcache.New(core.NewMemory(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			l, began := core.New(store), time.Now().Add(-time.Minute)
			for i := range 30 {
				key := fmt.Sprint("user:", i)
				topUp(t, l, key, credits, 10+i, "first")
				topUp(t, l, key, credits, 5, "second")
				topUp(t, l, key, core.Balance(), 7, "elsewhere")
				if _, err := l.Charge(t.Context(), key, credits, i); err != nil {
					t.Fatal(err)
				}
			}
			topUp(t, l, "team:1", credits, 1, "first")
			all := allBalances(t, l, "user:")
			if len(all) != 30 {
				t.Errorf("%d balances, want 30", len(all))
			}
			for i := range 30 {
				key := fmt.Sprint("user:", i)
				one, err := admin.BalanceOf(t.Context(), l, key, credits)
				if err != nil || !reflect.DeepEqual(one, all[key]) {
					t.Errorf("the balance of a key is %+v, %v, and in the list %+v", one, err, all[key])
				}
				for j := range one.TopUps {
					if at := one.TopUps[j].At; at.Before(began) || at.After(time.Now().Add(time.Minute)) {
						t.Errorf("%s was topped up at %v", key, at)
					}
					one.TopUps[j].At = time.Time{}
				}
				want := admin.Balance{Key: key, Left: 15, Spent: i, TopUps: []admin.TopUp{{ID: "first", Units: 10 + i}, {ID: "second", Units: 5}}}
				if !reflect.DeepEqual(one, want) {
					t.Errorf("the balance is %+v, want %+v", one, want)
				}
			}
			if none, err := admin.BalanceOf(t.Context(), l, "user:else", credits); err != nil || !reflect.DeepEqual(none, admin.Balance{Key: "user:else"}) {
				t.Errorf("a key without a balance has %+v, %v", none, err)
			}
		})
	}
}

// What was exported from one Redis is as it was in another, with the ids of the top-ups. What is there already stays.
func TestBalancesAreRestored(t *testing.T) {
	from := core.New(core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient)))
	to := core.New(core.NewRedis(redistest.StartCluster(t).Client(t), core.WithBudget(patient)))
	long := strings.Repeat("long", 50)
	for _, key := range []string{"a", "spent", long, "#like a hash"} {
		topUp(t, from, key, credits, 100, "first")
		if _, err := from.Charge(t.Context(), key, credits, 40); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := from.Charge(t.Context(), "spent", credits, 60); err != nil {
		t.Fatal(err)
	}
	exported := allBalances(t, from, "")
	for again := range 2 {
		for _, b := range exported {
			if done, err := admin.RestoreBalance(t.Context(), to, credits, b); err != nil || done != (again == 0) {
				t.Errorf("restored %t, %v", done, err)
			}
		}
		if got := allBalances(t, to, ""); len(exported) != 4 || !reflect.DeepEqual(got, exported) {
			t.Errorf("restored %+v\nwant %+v", got, exported)
		}
		d, repeated, err := to.TopUp(t.Context(), long, credits, 100, "first")
		if err != nil || !repeated || d.Remaining != 60 {
			t.Errorf("a repeated top-up leaves %d, %t, %v", d.Remaining, repeated, err)
		}
	}
	topUp(t, to, "a", credits, 1, "third")
	if done, err := admin.RestoreBalance(t.Context(), to, credits, exported["a"]); err != nil || done {
		t.Errorf("a balance that is there is restored: %t, %v", done, err)
	}
	if b, err := admin.BalanceOf(t.Context(), to, "a", credits); err != nil || b.Left != 61 {
		t.Errorf("%d are left, %v", b.Left, err)
	}
}

func TestNoOtherLimitHasABalance(t *testing.T) {
	l := core.New(core.NewMemory())
	other := core.Leaky(1, core.PerSecond(1))
	if _, err := admin.BalanceOf(t.Context(), l, "a", other); err == nil {
		t.Error("a leaky bucket has a balance")
	}
	if _, _, err := admin.Balances(t.Context(), l, other, "", ""); err == nil {
		t.Error("a leaky bucket has balances")
	}
	if _, err := admin.RestoreBalance(t.Context(), l, other, admin.Balance{Key: "a"}); err == nil {
		t.Error("a leaky bucket is restored")
	}
	if _, err := admin.RestoreBalance(t.Context(), l, credits, admin.Balance{Key: "a"}); err == nil {
		t.Error("a balance is restored in memory")
	}
	if _, err := admin.BalanceOf(t.Context(), l, "", credits); err == nil {
		t.Error("an empty key has a balance")
	}
}

func TestNonsenseIsNotRestored(t *testing.T) {
	l := core.New(core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	now := time.Now()
	for name, b := range map[string]admin.Balance{
		"no key":             {},
		"no hash":            {Key: "#a", Hashed: true},
		"less than nothing":  {Key: "a", Left: -1},
		"too much":           {Key: "a", Left: 1e15},
		"less spent":         {Key: "a", Spent: -1},
		"an id with a space": {Key: "a", TopUps: []admin.TopUp{{ID: "a b", Units: 1, At: now}}},
		"no units":           {Key: "a", TopUps: []admin.TopUp{{ID: "a", At: now}}},
		"before 1970":        {Key: "a", TopUps: []admin.TopUp{{ID: "a", Units: 1, At: time.Unix(-1, 0)}}},
		"too many":           {Key: "a", TopUps: make([]admin.TopUp, 129)},
	} {
		if done, err := admin.RestoreBalance(t.Context(), l, credits, b); err == nil || done {
			t.Errorf("%s: restored", name)
		}
	}
	if all := allBalances(t, l, ""); len(all) > 0 {
		t.Errorf("there is %+v", all)
	}
}
