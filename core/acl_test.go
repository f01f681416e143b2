package core_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// leastPrivilege is the user that the README recommends.
const leastPrivilege = "reset on >secret ~ratelimit:* resetchannels +evalsha +eval +time " +
	"+get +set +del +hmget +hset +pexpireat +llen +lindex +lrange +ltrim +rpush +lrem"

// A user who may do nothing else can do everything that a limiter needs.
func TestLeastPrivilege(t *testing.T) {
	server := redistest.Start(t)
	rule := []any{"acl", "setuser", "limiter"}
	for word := range strings.FieldsSeq(leastPrivilege) {
		rule = append(rule, word)
	}
	if err := server.Client(t).Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "secret" })
	if err := client.Get(t.Context(), "other").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Fatalf("reading a key that is none of ours: %v, want NOPERM", err)
	}
	store := core.NewRedis(client, core.WithBudget(patient))
	limiter := core.New(store)
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []core.Check
	for name, limit := range hourly {
		all = append(all, core.Check{Key: "all", Limit: limit(3), Cost: 1})
		for i, want := range []bool{true, true, true, false} {
			if d, err := limiter.Allow(t.Context(), name, limit(3)); err != nil || d.Allowed != want {
				t.Errorf("%s, request %d: %+v, %v", name, i+1, d, err)
			}
		}
		if err := limiter.Reset(t.Context(), name, limit(3)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := limiter.AllowAll(t.Context(), all...); err != nil {
		t.Error(err)
	}
}
