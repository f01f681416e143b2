package lists_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/lists"
)

func TestASetInRedisIsAList(t *testing.T) {
	client, key := redistest.Shared(t).Client(t), redistest.Prefix(t)+"deny"
	source := lists.Redis(client, key)
	expectFailed(t, source, `deny": does not exist: add the member "#" to a list that is to be empty`)
	add := func(entries ...any) {
		t.Helper()
		if err := client.SAdd(t.Context(), key, entries...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	add("#")
	expectRead(t, source, false, false)
	add("203.0.113.1/32", "key:user:42", "key:a # b", "# why not")
	expectRead(t, source, true, false)
	list, err := source(t.Context())
	if err != nil || !list.Has(netip.Addr{}, "user:42") || !list.Has(netip.Addr{}, "a # b") || list.Keys() != 2 {
		t.Errorf("list %v, error %v", list, err)
	}
	add("y", "x", "z")
	for range 10 {
		expectFailed(t, source, `deny": entry "x": is no address`)
	}
	if err := errors.Join(client.Del(t.Context(), key).Err(), client.Set(t.Context(), key, "203.0.113.1", 0).Err()); err != nil {
		t.Fatal(err)
	}
	expectFailed(t, source, "WRONGTYPE")
}

func TestTenThousandEntriesInRedis(t *testing.T) {
	client, key := redistest.Shared(t).Client(t), redistest.Prefix(t)+"deny"
	entries := make([]any, 10_000)
	for i := range entries {
		entries[i] = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String()
	}
	if err := client.SAdd(t.Context(), key, entries...).Err(); err != nil {
		t.Fatal(err)
	}
	list, err := lists.Redis(client, key)(t.Context())
	if err != nil || list.Prefixes() != len(entries) || !list.Has(netip.MustParseAddr("10.1.39.15"), "") || list.Has(netip.MustParseAddr("10.1.39.16"), "") {
		t.Errorf("%d prefixes, error %v", list.Prefixes(), err)
	}
}

// The server ends, hangs, and comes back without its data and with other ones: the list that was read
// last stays until there is another.
func TestAListSurvivesItsRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t, func(o *redis.Options) {
		o.MaxRetries = -1
		o.ReadTimeout = 100 * time.Millisecond
		o.ContextTimeoutEnabled = true
	})
	add := func(entry string) {
		t.Helper()
		if err := client.SAdd(t.Context(), "deny", entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	add("203.0.113.1")
	told := make(chan error, 1000)
	live, err := lists.Watch(t.Context(), lists.Redis(client, "deny"), lists.WatchOptions{Every: 5 * time.Millisecond, OnError: func(err error) {
		select {
		case told <- err:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	expectTold := func(reason string) {
		t.Helper()
		for patience := time.After(20 * time.Second); ; {
			select {
			case err := <-told:
				if strings.Contains(err.Error(), reason) {
					if !live.List().Has(first, "") || live.List().Has(second, "") {
						t.Errorf("the list has not stayed as it was, after %v", err)
					}
					return
				}
			case <-patience:
				t.Fatalf("nobody is told of %q", reason)
			}
		}
	}
	server.Pause(t)
	expectTold("timeout")
	server.Resume(t)
	server.Stop(t)
	expectTold("refused")
	server.Restart(t)
	expectTold("does not exist") // it kept nothing on disk
	add("203.0.113.2")
	for deadline := time.Now().Add(20 * time.Second); live.List().Has(first, "") || !live.List().Has(second, ""); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the list does not follow the server that has come back")
		}
	}
}
