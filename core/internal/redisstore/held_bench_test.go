package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// BenchmarkHeld measures for how long script runs hold Redis, under one algorithm or all that a script has, with one key, with as
// many keys as a run may have (reservations for a time have two), and with twice as many: the median, and all but one in a hundred.
func BenchmarkHeld(b *testing.B) {
	client := redistest.Start(b).Client(b)
	charge := func(*call.Check) {}
	note := func(c *call.Check) { c.Settled = true }
	reserve := func(c *call.Check) { c.Settled, c.ReserveFor = true, time.Minute.Microseconds() }
	end := func(c *call.Check) { c.Settled, c.ReserveFor = true, 1 }
	for _, kind := range []struct {
		name string
		does script.Task
		each int // checks of a call
		set  func(c *call.Check)
	}{
		{"checks", script.OwnCheck, 1, charge},
		{"noted checks", script.OwnReserve, 1, note},
		{"reservations", script.OwnReserve, 1, reserve},
		{"settlements", script.OwnSettle, 1, reserve},
		{"calls", script.Decide, 2, charge},
		{"calls that reserve", script.Reserve, 2, reserve},
		{"calls that reserve where some have ended", script.Reserve, 2, end},
		{"settlements of charges", script.Settle, 1, charge},
		{"settlements of calls that reserved", script.Close, 1, reserve},
	} {
		var probe call.Check
		kind.set(&probe)
		algorithms := slices.DeleteFunc(slices.Collect(exact.All()), func(a exact.Algorithm) bool {
			return kind.does == script.OwnCheck && !script.HasOwnCheck(a) || kind.does == script.OwnReserve && !script.HasOwnReserve(a) || kind.does == script.OwnSettle && !script.HasOwnSettle(a) ||
				probe.ReserveFor > 0 && a.Unreserved() != "" || kind.does.Settles() && a.Kind() != exact.Quota
		})
		most := mostKeys[kind.does]
		if probe.ReserveFor > 0 {
			most /= 2
		}
		for _, keys := range []int{1, most, 2 * most} {
			for _, of := range algorithms {
				b.Run(fmt.Sprintf("%s/%s/%d", kind.name, of, keys), func(b *testing.B) {
					measure(b, client, kind.does, of, func(r *Store, round int) []*requestGroup {
						return groupsOf(b, r, kind.does, checksOf([]exact.Algorithm{of}, keys, round, kind.set), kind.each)
					})
				})
			}
			if kind.does.Own() {
				continue
			}
			b.Run(fmt.Sprintf("%s/all/%d", kind.name, keys), func(b *testing.B) {
				measure(b, client, kind.does, script.Mixed, func(r *Store, round int) []*requestGroup {
					return groupsOf(b, r, kind.does, checksOf(algorithms, keys, round, kind.set), kind.each)
				})
			})
		}
	}
}

// measure has runs of a script done, and reports for how long they have held Redis.
func measure(b *testing.B, client *redis.Client, does script.Task, of exact.Algorithm, groups func(r *Store, round int) []*requestGroup) {
	b.Helper()
	r := newStore(client, func(c *Config) { c.Prefix = redistest.Prefix(b) })
	defer func() { _ = r.Close() }()
	if !does.Own() {
		of = script.Mixed
	}
	took := make([]time.Duration, b.N)
	for i := range took {
		took[i] = held(b, client, r, run{within: general, does: does, of: of, groups: groups(r, i)})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-of-99%")
	b.ReportMetric(0, "ns/op")
}

// held has a run done, and returns for how long it has held Redis.
func held(b *testing.B, client *redis.Client, r *Store, one run) time.Duration {
	b.Helper()
	var c scriptCall
	called, _ := r.appendCall(&c, one)
	c.words[0], c.words[1] = "evalsha", called.Hash
	ctx := b.Context()
	if err := client.ScriptLoad(ctx, called.Source).Err(); err != nil {
		b.Fatal(err)
	}
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	reply := redis.NewStringCmd(ctx, c.words...)
	if err := client.Process(ctx, reply); err != nil {
		b.Fatal(err)
	}
	if strings.ContainsAny(reply.Val(), "\n*") {
		b.Fatalf("the script has not done it: %q", reply.Val())
	}
	stats, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	var microseconds int
	_, line, _ := strings.Cut(stats, "cmdstat_evalsha:")
	if _, err := fmt.Sscanf(line, "calls=1,usec=%d,", &microseconds); err != nil {
		b.Fatal(err)
	}
	return time.Duration(microseconds) * time.Microsecond
}

// checksOf returns checks of as many keys, of some algorithms in turn. Three rounds in a row have other keys.
func checksOf(of []exact.Algorithm, keys, round int, set func(*call.Check)) []call.Check {
	list := make([]call.Check, keys)
	for i := range list {
		a := of[i%len(of)]
		own := spec(a, 1000, 1000, 5*time.Minute)
		if a.Kind() == exact.Bans {
			strikes := exact.Params{Algorithm: exact.SlidingLog, Capacity: 5, Events: 5, Period: time.Hour}
			own = exact.NewSpec(exact.BanParams("banned", strikes, exact.BanTerms{}), nil)
		}
		list[i] = call.Check{Key: fmt.Sprint("key:", round%3, ":", i), Spec: own, Units: 1, Holder: call.NewHolder()}
		set(&list[i])
	}
	return list
}

// groupsOf returns requests of so many checks each, or for a task that settles the settlements of such, which are charged before.
func groupsOf(b testing.TB, r *Store, does script.Task, checks []call.Check, each int) (groups []*requestGroup) {
	b.Helper()
	for some := range slices.Chunk(checks, each) {
		asked, q := callOf(some...), new(script.Request)
		if does.Settles() {
			if _, err := r.Decide(b.Context(), []*call.Call{asked}); err != nil {
				b.Fatal(err)
			}
			q.SetCorrections(call.Reversal(asked.Groups[0]), r.only.clock, r.Prefix)
		} else {
			q.SetChecks(asked.Groups, 1, true, r.only.clock, r.Prefix)
		}
		if q.Plain && !does.Own() {
			q.Explain()
		}
		groups = append(groups, &requestGroup{Request: q, Len: 1})
	}
	return groups
}
