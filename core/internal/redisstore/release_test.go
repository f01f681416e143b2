package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// release returns the correction that gives back places of a key.
func release(key string, of *exact.Spec, h exact.Holder, places int) call.Correction {
	return call.Correction{Correction: exact.Correction{Events: -places, Holder: h}, Key: key, Spec: of}
}

// Places that are given back alone have few words in Redis, and whatever else is in a batch is carried out as ever. What is no
// place is in no batch with places. Several
// of one key in a row are all given back. Neither a key of another type nor one that is gone is an error.
func TestPlacesAreGivenBackInFewWords(t *testing.T) {
	limit := spec(exact.Concurrent, 10, 10, time.Minute)
	client := redistest.Shared(t).Client(t)
	for name, c := range map[string]struct {
		more []call.Correction
		as   []script.Task
	}{
		"alone":                       {nil, []script.Task{script.Release}},
		"beside a renewal":            {[]call.Correction{{Correction: exact.Correction{Events: -1, Renew: true, Holder: call.NewHolder()}, Key: "other", Spec: limit}}, []script.Task{script.Settle}},
		"beside several of one":       {[]call.Correction{release("other", limit, call.NewHolder(), 2)}, []script.Task{script.Settle}},
		"beside what is no place":     {correction("other", hourly, 1), []script.Task{script.Release, script.Settle}},
		"beside one of the same name": {[]call.Correction{release("a", limit, call.NewHolder(), 1)}, []script.Task{script.Release}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStore(client, func(c *Config) { c.Prefix = redistest.Prefix(t) })
			t.Cleanup(func() { _ = r.Close() })
			var list []call.Correction
			for _, key := range []string{"a", "a", "a", "b", "damaged", "a"} {
				h := call.NewHolder()
				if _, err := decide(t.Context(), r, call.Check{Key: key, Spec: limit, Units: 1, Holder: h}); err != nil {
					t.Fatal(err)
				}
				list = append(list, release(key, limit, h, 1))
			}
			kept := call.NewHolder()
			if _, err := decide(t.Context(), r, call.Check{Key: "a", Spec: limit, Units: 1, Holder: kept}); err != nil {
				t.Fatal(err)
			}
			if err := client.Set(t.Context(), r.Name("damaged", limit), "text", time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			list = append(list, release("gone", limit, call.NewHolder(), 1))
			if err := r.Settle(t.Context(), append(list, c.more...)); err != nil {
				t.Error(err)
			}
			for key, want := range map[string][]string{"a": {".", call.HolderName(kept)}, "b": {"."}, "gone": {}} {
				if left := client.ZRange(t.Context(), r.Name(key, limit), 0, -1).Val(); !slices.Equal(left, want) {
					t.Errorf("%q has %q, want %q", key, left, want)
				}
			}
			for task := range script.Tasks {
				used := false
				for of := range r.scripts[task] {
					used = used || r.scripts[task][of].Load() != nil
				}
				if want := task == script.Decide || slices.Contains(c.as, task); used != want {
					t.Errorf("the script of task %d was used: %v, want %v", task, used, want)
				}
			}
		})
	}
}

// What Redis refuses to give back is an error of each place that it has refused, which says why.
func TestPlacesThatAreNotGivenBackAreErrors(t *testing.T) {
	limit := spec(exact.Concurrent, 10, 10, time.Minute)
	server := redistest.Start(t)
	if err := server.Client(t).Do(t.Context(), "acl", "setuser", "limiter", "reset", "on", "nopass", "~*", "+@all", "-zrem").Err(); err != nil {
		t.Fatal(err)
	}
	r := newStore(server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "any" }))
	t.Cleanup(func() { _ = r.Close() })
	list := []call.Correction{release("a", limit, call.NewHolder(), 1), release("a", limit, call.NewHolder(), 1), release("b", limit, call.NewHolder(), 1)}
	if err := r.Settle(t.Context(), list); err == nil {
		t.Error("it is no error")
	}
}
