package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// Redis never evicts or expires a balance with units by its time to live, since it has none. An empty one has 30 days.
func TestBalancesInRedisHaveNoTimeToLive(t *testing.T) {
	ctx, client, prefix := t.Context(), redistest.Shared(t).Client(t), redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(time.Minute)))
	credits := core.Balance().Named("credits")
	key := prefix + ":{user:42}:balance=credits"
	check := func(did string, err error, empty bool) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", did, err)
		}
		left, err := client.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		const days = 30 * 24 * time.Hour
		switch {
		case !empty && left != -1:
			t.Errorf("%s: the balance lives for %v, want for good", did, left)
		case empty && (left < days-time.Minute || left > days+time.Minute):
			t.Errorf("%s: the empty balance lives for %v, want 30 days", did, left)
		}
	}
	topUp := func(id string) error {
		_, _, err := limiter.TopUp(ctx, "user:42", credits, 5, id)
		return err
	}
	allow := func(n int) error {
		_, err := limiter.AllowN(ctx, "user:42", credits, n)
		return err
	}
	peeked, err := limiter.Peek(ctx, "user:42", credits)
	if n := client.Exists(ctx, key).Val(); err != nil || n != 0 || peeked.Allowed {
		t.Fatalf("a balance that nobody topped up: %+v, %v, %d keys", peeked, err, n)
	}
	if err := allow(1); err != nil || client.Exists(ctx, key).Val() != 0 {
		t.Fatalf("a denial has left a key, or %v", err)
	}
	check("a top-up", topUp("a"), false)
	for range 40 { // every sixteenth check of other limits looks at the time to live
		check("a charge", allow(1), false)
		_, err := limiter.Refund(ctx, "user:42", credits, 1)
		check("a refund", err, false)
	}
	check("a charge of all", allow(5), true)
	check("a denial", allow(5), true)
	check("a repeated top-up", topUp("a"), true)
	_, err = limiter.Refund(ctx, "user:42", credits, 2)
	check("a refund", err, false)
	_, err = limiter.Charge(ctx, "user:42", credits, 9)
	check("a charge of more", err, true)
	check("a second top-up", topUp("b"), false)
	check("a reset", limiter.Reset(ctx, "user:42", credits), true)
	check("a third top-up", topUp("c"), false)
}

// Redis replaces a key of another kind.
func TestDamagedBalancesInRedis(t *testing.T) {
	ctx, client, prefix := t.Context(), redistest.Shared(t).Client(t), redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(time.Minute)))
	key := prefix + ":{user:42}:balance"
	for name, damage := range map[string]func(context.Context){
		"a text":       func(ctx context.Context) { client.Set(ctx, key, "x", 0) },
		"no number":    func(ctx context.Context) { client.HSet(ctx, key, "left", "many") },
		"below zero":   func(ctx context.Context) { client.HSet(ctx, key, "left", "-1") },
		"a part":       func(ctx context.Context) { client.HSet(ctx, key, "left", "0.5") },
		"too many":     func(ctx context.Context) { client.HSet(ctx, key, "left", "1e15") },
		"no sum spent": func(ctx context.Context) { client.HSet(ctx, key, "left", "1", "spent", "x") },
	} {
		damage(ctx)
		if d, err := limiter.Allow(ctx, "user:42", core.Balance()); err != nil || d.Allowed {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if n := client.Exists(ctx, key).Val(); n != 0 {
			t.Errorf("%s is still there", name)
		}
		damage(ctx)
		if d, repeated, err := limiter.TopUp(ctx, "user:42", core.Balance(), 5, "a"); err != nil || repeated || d.Remaining != 5 {
			t.Errorf("%s: after a top-up %+v, %t, %v", name, d, repeated, err)
		}
		client.Del(ctx, key)
	}
}

// The text of a balance has no numbers.
func TestTextOfBalances(t *testing.T) {
	for text, want := range map[string]core.Quota{"balance": core.Balance(), "credits:  balance": core.Balance().Named("credits")} {
		l, err := core.ParseLimit(text)
		if err != nil || l != core.Limit(want) {
			t.Errorf("ParseLimit(%q): %v, %v", text, l, err)
		}
		again, err := core.ParseLimit(want.String())
		if err != nil || again != core.Limit(want) {
			t.Errorf("ParseLimit(%q): %v, %v", want, again, err)
		}
	}
	for _, text := range []string{"balance 10", "balance 10, 1m", "balance, exact", "balances"} {
		if l, err := core.ParseLimit(text); err == nil {
			t.Errorf("ParseLimit(%q): %v, want an error", text, l)
		}
	}
	if own := core.Balance().Share(3); own != core.Balance() {
		t.Errorf("a share of a balance is %v", own)
	}
}

// A cache of denials asks again: a top-up in another process is no news to it.
func TestDenialsOfBalancesAreNotRemembered(t *testing.T) {
	store := core.NewMemory()
	cached, other, credits := core.New(denialcache.New(store, 10)), core.New(store), core.Balance()
	if d, err := cached.Allow(t.Context(), "user:42", credits); err != nil || d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, _, err := other.TopUp(t.Context(), "user:42", credits, 1, "a"); err != nil {
		t.Fatal(err)
	}
	if d, err := cached.Allow(t.Context(), "user:42", credits); err != nil || !d.Allowed {
		t.Errorf("after a top-up: %+v, %v", d, err)
	}
}

// A store in this process forgets no balance to make room.
func TestBalancesInMemoryGiveNoRoom(t *testing.T) {
	full := core.New(core.NewMemory(core.WithMaxKeys(1)))
	if _, _, err := full.TopUp(t.Context(), "user:42", core.Balance(), 5, "a"); err != nil {
		t.Fatal(err)
	}
	if d, err := full.Allow(t.Context(), "user:43", core.Leaky(10, core.PerSecond(1))); err == nil {
		t.Errorf("a balance has made room: %+v", d)
	}
	if d, err := full.Allow(t.Context(), "user:42", core.Balance()); err != nil || d.Remaining != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A unit of a balance is spent by the call that is charged, and by none ahead of time.
func TestBalancesAreNotLeased(t *testing.T) {
	store := core.NewMemory()
	l := core.New(core.Lease(store, core.Tolerance{Over: 1}))
	if _, _, err := l.TopUp(t.Context(), "user:1", core.Balance(), 1_000_000, "payment"); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 { // a hot key
		d, err := l.Allow(t.Context(), "user:1", core.Balance())
		if err != nil || !d.Allowed || d.Leased || d.Remaining != 1_000_000-1-i {
			t.Fatalf("call %d: %+v, %v", i, d, err)
		}
	}
}
