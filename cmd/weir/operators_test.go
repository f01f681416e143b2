package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/weir-go/ratelimit/cmd/weir/internal/busiest"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
	"github.com/weir-go/ratelimit/internal/redistest"
)

const logins = "logins: ban 2, 10m, first 10m, factor 2, longest 7d, forget 1d"

// server starts a Redis that the program asks by default, and returns a limiter on it.
func server(t *testing.T) *core.Limiter {
	t.Helper()
	return openOn(t, "redis://"+redistest.Start(t).Addr())
}

// openOn returns a limiter on a store, which the program asks by default.
func openOn(t *testing.T, url string) *core.Limiter {
	t.Helper()
	t.Setenv("REDIS_URL", url)
	limiter, err := core.Open(url, core.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	return limiter
}

func allow(t *testing.T, l *core.Limiter, checks ...core.Check) {
	t.Helper()
	if _, err := l.AllowAll(t.Context(), checks...); err != nil {
		t.Fatal(err)
	}
}

// says fails unless the program exits with a code and writes texts.
func says(t *testing.T, code int, texts []string, args ...string) string {
	t.Helper()
	got, out, messages := weir(t, "", append(args[:1:1], append([]string{"-timeout", "1m"}, args[1:]...)...)...)
	if got != code {
		t.Errorf("%q: exit code %d, want %d: %s", args, got, code, messages)
	}
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out+messages), " "), text) {
			t.Errorf("%q does not say %q, but %s%s", args, text, out, messages)
		}
	}
	return out
}

// read reads the JSON that the program writes.
func read[T any](t *testing.T, args ...string) (value T) {
	t.Helper()
	return decode[T](t, says(t, 0, nil, append(args[:1:1], append([]string{"-json"}, args[1:]...)...)...))
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return value
}

func TestPeek(t *testing.T) {
	l := server(t)
	bucket, plan := core.Leaky(10, core.PerHour(1)), core.SlidingWindow(100, 24*time.Hour).Named("plan")
	allow(t, l, core.Check{Key: "user:1", Limit: bucket, Cost: 10}, core.Check{Key: "user:1", Limit: plan, Cost: 40})
	allow(t, l, core.Check{Key: "user:1", Limit: bucket, Cost: 3, Shadow: true}, core.Check{Key: "user:11", Limit: bucket})
	says(t, 0, []string{
		"user:1 leaky 10, 1/h 10 of 10, next drip in", "is denied for", "user:1 leaky 10, 1/h (shadow) 3 of 10", "user:1 plan ? sliding-window: give its",
	}, "peek", "user:1")
	says(t, 0, []string{"user:1 plan: sliding-window 100, 1d 40 of 100", "passes"}, "peek", "-limit", "plan: sliding-window 100, 1d", "user:1")
	says(t, 0, []string{"nothing is used"}, "peek", "user")
	if got := read[[]Standing](t, "peek", "-limit", "leaky 10, 1/h", "-limit", plan.String(), "user:1", "user:11"); len(got) != 4 ||
		got[0].Numbers.Allowed || *got[0].Numbers.RetryAfter < 3500 || got[1].Numbers.Used != 40 || got[2].Key != "user:11" || got[2].Numbers.Remaining != 9 {
		t.Errorf("%+v", got)
	}
	allow(t, l, core.Check{Key: "user:1", Limit: plan, Cost: 100, Shadow: true})
	file := policiesFile(t, "limits:\n  plan: sliding-window 100, 1d\npolicies:\n  - limit: plan\n    key: user\n")
	says(t, 0, []string{"user:1 plan: sliding-window 100, 1d 40 of 100", "user:1 plan: sliding-window 100, 1d (shadow) 100 of 100", "is denied for"}, "peek", "-policies", file, "user:1")
	plans := policiesFile(t, "plans:\n  plan: {free: 'sliding-window 50, 1d', '*': 'sliding-window 100, 1d', big: unlimited}\npolicies:\n  - limit: plan\n    key: user\n")
	says(t, 0, []string{"user:1 plan: sliding-window 100, 1d (plan *) 40 of 100", "user:1 plan: sliding-window 50, 1d (plan free) 40 of 50"}, "peek", "-policies", plans, "user:1")
	if got := read[[]Standing](t, "peek", "-policies", plans, "user:1"); len(got) != 6 || slices.ContainsFunc(got, func(s Standing) bool { return s.Numbers == nil }) {
		t.Errorf("%+v", got)
	}
	says(t, exitInvalid, []string{"line 1, column"}, "peek", "-policies", policiesFile(t, "limits: 3\n"), "user:1")
	if got := read[[]Standing](t, "peek", "nobody"); got == nil || len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if d, err := l.Peek(t.Context(), "user:1", plan); err != nil || d.Remaining != 60 {
		t.Errorf("peek has charged: %+v, %v", d, err)
	}
}

func TestReset(t *testing.T) {
	l := server(t)
	bucket, plan := core.Leaky(10, core.PerHour(1)), core.SlidingWindow(100, 24*time.Hour).Named("plan")
	left := func(key string, limit core.Limit) int {
		d, err := l.Peek(t.Context(), key, limit)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	for _, key := range []string{"user:1", "user:2"} {
		allow(t, l, core.Check{Key: key, Limit: bucket, Cost: 10}, core.Check{Key: key, Limit: plan, Cost: 40})
	}
	says(t, 0, []string{"user:1 is as good as new under leaky:10:1/h"}, "reset", "-limit", "leaky 10, 1/h", "user:1")
	if a, b := left("user:1", bucket), left("user:1", plan); a != 10 || b != 60 {
		t.Errorf("left: %d and %d", a, b)
	}
	if got := read[[]Reset](t, "reset", "-all", "user:2", "user:3"); len(got) != 2 || len(got[0].Limits) != 2 || len(got[1].Limits) != 0 {
		t.Errorf("%+v", got)
	}
	if a, b, c := left("user:2", bucket), left("user:2", plan), left("user:1", plan); a != 10 || b != 100 || c != 60 {
		t.Errorf("left: %d, %d, and of another key %d", a, b, c)
	}
	if got := read[[]Reset](t, "reset", "-limit", "plan", "-limit", "leaky 10, 1/h", "user:1"); fmt.Sprint(got) != "[{user:1 [plan leaky:10:1/h]}]" || left("user:1", plan) != 100 {
		t.Errorf("%+v, left: %d", got, left("user:1", plan))
	}
	says(t, exitUsage, []string{"-limit"}, "reset", "-limit", "leaky", "user:1")
	says(t, exitUsage, []string{"-limit"}, "reset", "-limit", "leaky 10", "user:1")
	says(t, exitUsage, []string{"either its limits or -all"}, "reset", "user:1")
	says(t, exitUsage, []string{"either its limits or -all"}, "reset", "-all", "-limit", "leaky 10, 1/h", "user:1")
}

// The numbers of a named limit do not matter to a reset, whichever its algorithm.
func TestResetOfEveryAlgorithm(t *testing.T) {
	l := server(t)
	if _, err := core.ParseLimit("no-such-algorithm 1, 1s"); err == nil || strings.Count(err.Error(), ",") < len(examples)-1 {
		t.Fatalf("are all algorithms tried? %v", err)
	} else {
		for name := range examples {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s is none of %v", name, err)
			}
		}
	}
	for algorithm, text := range map[string]string{
		"leaky": "leaky 9, 1/h", "shaping": "shaping 9, 1/h", "token-bucket": "token-bucket 9, 1/h", "gcra": "gcra 9, 1/h",
		"fixed-window": "fixed-window 9, 1h", "sliding-window": "sliding-window 9, 1h", "sliding-log": "sliding-log 9, 1h",
		"calendar": "calendar 9, month@3 Europe/Berlin", "concurrent": "concurrent 9, 1m", "ban": "ban 9, 1h, first 1h, factor 2, longest 1d, forget 1h",
	} {
		limit, err := core.ParseLimit("mine: " + text)
		if err != nil {
			t.Fatal(err)
		}
		if places, ok := limit.(core.Places); ok {
			if _, err := l.TryAcquire(t.Context(), algorithm, places); err != nil {
				t.Fatal(err)
			}
		} else {
			allow(t, l, core.Check{Key: algorithm, Limit: limit, Cost: 5})
		}
		says(t, 0, []string{algorithm + " is as good as new under mine"}, "reset", "-all", algorithm)
		if d, err := l.Peek(t.Context(), algorithm, limit); err != nil || d.Remaining != 9 {
			t.Errorf("%s: %+v, %v", limit, d, err)
		}
	}
}

// Where tenants share a limit, a reset of it is one of all tenants, and nothing else of the key keeps from being reset.
func TestResetOfFairShares(t *testing.T) {
	l := server(t)
	of, other := core.TokenBucket(100, core.PerHour(1)).Named("gpu"), core.Leaky(10, core.PerHour(1))
	shared := core.FairShare(core.Check{Key: "key", Limit: of, Cost: 10}, "tenant", 1)
	allow(t, l, append(shared, core.Check{Key: "key", Limit: other, Cost: 10})...)
	if got := read[[]Reset](t, "reset", "-all", "key"); len(got) != 1 || len(got[0].Limits) != 2 {
		t.Errorf("%+v", got)
	}
	decisions, err := l.PeekAll(t.Context(), append(shared, core.Check{Key: "key", Limit: other})...)
	if err != nil || decisions[0].Remaining != 100 || decisions[1].Remaining != 100 || decisions[2].Remaining != 10 {
		t.Errorf("left: %+v, %v", decisions, err)
	}
	says(t, exitUsage, []string{"-limit"}, "reset", "-limit", "fair-share", "key")
	says(t, 0, []string{"key is as good as new under gpu"}, "reset", "-limit", "gpu", "key")
}

// What leases remember in Redis is told as that: nobody can give its numbers, and it keeps nothing from being reset.
func TestWhatLeasesRemember(t *testing.T) {
	server(t)
	store, err := core.OpenStore(os.Getenv("REDIS_URL"), core.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	l := core.New(core.Lease(store, core.Tolerance{Over: 0.5}))
	defer func() { _ = l.Close() }()
	limit := core.SlidingLog(600_000, 10*time.Minute)
	leased := func() bool {
		d, err := l.Allow(t.Context(), "key", limit)
		if err != nil {
			t.Error(err)
		}
		return d.Leased || err != nil
	}
	for start := time.Now(); !leased(); {
		if time.Since(start) > time.Minute {
			t.Fatal("nothing is leased")
		}
	}
	ended, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer end()
	asking.Go(func() { // so that there is a lease all the time
		for tick := time.Tick(time.Millisecond); ended.Err() == nil; <-tick {
			leased()
		}
	})
	const told = "units that leases remember (docs/leases.md)"
	says(t, 0, []string{"key weir-leased:sliding-log:600000:10m ? leaky: " + told, "key sliding-log 600000, 10m"}, "peek", "key")
	says(t, 0, []string{"weir-leased:sliding-log:600000:10m 1 ? " + told}, "top", "-once")
	says(t, 0, []string{"key is as good as new under sliding-log:600000:10m"}, "reset", "-all", "key")
}

func TestBansByHand(t *testing.T) {
	l := server(t)
	ban, err := core.ParseBan(logins)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Strike(t.Context(), "ip:1", ban, 2); err != nil {
		t.Fatal(err)
	}
	says(t, 0, []string{"ip:2 is banned for 1h0m0s"}, "ban", "-ban", logins, "-for", "1h", "-reason", "\x1b[31mscraping", "ip:2")
	if left, err := l.Banned(t.Context(), "ip:2", ban); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("%v, %v", left, err)
	}
	says(t, 0, []string{"ip:1", `"\x1b[31mscraping"`}, "bans", "-ban", "logins")
	if got := read[[]Banned](t, "bans", "-ban", logins, "ip:1"); len(got) != 1 || got[0].Bans != 1 || time.Until(*got[0].Until) < 5*time.Minute {
		t.Errorf("%+v", got)
	}
	says(t, 0, []string{"ip:1 is banned no more", "ip:3 was not banned"}, "lift", "-ban", "logins", "ip:1", "ip:3")
	if got := read[[]Done](t, "lift", "-ban", logins, "ip:2"); len(got) != 1 || got[0].Key != "ip:2" {
		t.Errorf("%+v", got)
	}
	says(t, 0, []string{"no key is banned"}, "bans", "-ban", "logins")
	for _, args := range [][]string{
		{"ban", "-ban", "logins", "-for", "1h", "ip:2"},
		{"ban", "-ban", logins, "ip:2"},
		{"ban", "-for", "1h", "ip:2"},
		{"ban", "-ban", logins, "-for", "1h"},
		{"lift", "ip:2"},
		{"lift", "-ban", "two words", "ip:2"},
		{"lift", "-ban", "(", "ip:2"},
		{"bans", "-ban", "logins", "a", "b"},
		{"bans"},
	} {
		says(t, exitUsage, nil, args...)
	}
}

func TestTopOnce(t *testing.T) {
	l := server(t)
	plan := core.FixedWindow(10, time.Hour).Named("plan")
	allow(t, l, core.Check{Key: "user:1", Limit: core.Leaky(10, core.PerHour(1)), Cost: 10}, core.Check{Key: "user:1", Limit: plan, Cost: 4})
	allow(t, l, core.Check{Key: "user:\x1b[31m", Limit: core.Leaky(10, core.PerHour(1)), Cost: 3})
	says(t, 0, []string{
		"leaky:10:1/h 2 1", "plan 1 ? give its numbers", "user:1 leaky:10:1/h 10 of 10", "is denied for", `"user:\x1b[31m" leaky:10:1/h 3 of 10`,
	}, "top")
	got := read[Top](t, "top", "-limit", plan.String(), "-rows", "2")
	if len(got.Keys) != 2 || got.Keys[1].Limit != plan.String() || len(got.Limits) != 2 || *got.Limits[0].Denied != 1 || *got.Limits[1].Denied != 0 {
		t.Errorf("%+v", got)
	}
	if again := read[Top](t, "top", "-policies", policiesFile(t, "limits:\n  plan: fixed-window 10, 1h\npolicies:\n  - limit: plan\n    key: user\n"), "-rows", "2"); len(again.Keys) != 2 || again.Keys[1].Limit != plan.String() {
		t.Errorf("%+v", again)
	}
	plans := policiesFile(t, "plans:\n  plan: {free: 'fixed-window 5, 1h', '*': 'fixed-window 20, 1h'}\npolicies:\n  - limit: plan\n    key: user\n")
	for plan, want := range map[string]string{"free": "4 of 5", "*": "4 of 20", "unknown": "4 of 20"} {
		if text := says(t, 0, []string{"user:1 plan " + want}, "top", "-policies", plans, "-plan", plan); strings.Contains(text, "?") {
			t.Errorf("it asks for numbers: %s", text)
		}
	}
	if got = read[Top](t, "top", "nobody"); got.Keys == nil || got.Limits == nil || len(got.Keys)+len(got.Limits) != 0 {
		t.Errorf("%+v", got)
	}
}

// The page on a terminal takes one sample after the other, fits its size and ends when it is told to.
func TestTheScreenOfTop(t *testing.T) {
	l := core.New(core.NewMemory())
	allow(t, l, core.Check{Key: "user:1", Limit: core.Leaky(10, core.PerHour(1)), Cost: 10})
	var model tea.Model = screen{ctx: t.Context(), every: time.Millisecond, sampler: busiest.New(l, busiest.Options{Rows: 5, Pages: 100})}
	step := func(message tea.Msg) (next tea.Msg) {
		t.Helper()
		var command tea.Cmd
		if model, command = model.Update(message); command == nil {
			return nil
		}
		return command()
	}
	if text := model.View().Content; !strings.Contains(text, "0 keys so far") {
		t.Errorf("before the first sample: %s", text)
	}
	next := step(model.Init()())
	if _, isDue := next.(due); !isDue {
		t.Fatalf("after a sample comes %T", next)
	}
	if text := model.View().Content; !strings.Contains(text, "user:1") || !strings.Contains(text, "10 of 10") {
		t.Errorf("after the first sample: %s", text)
	}
	if _, isSampled := step(next).(sampled); !isSampled {
		t.Error("no sample is taken when it is due")
	}
	step(tea.WindowSizeMsg{Width: 20, Height: 3})
	if lines := strings.Split(model.View().Content, "\n"); len(lines) != 3 || len(lines[0]) != 20 {
		t.Errorf("in a small window: %q", lines)
	}
	step(tea.WindowSizeMsg{Width: 200, Height: 30})
	step(sampled{err: errors.New("redis has gone")})
	if text := model.View().Content; !strings.Contains(text, "redis has gone") || !strings.Contains(text, "user:1") {
		t.Errorf("without an answer: %s", text)
	}
	if _, quits := step(tea.KeyPressMsg{Code: 'q', Text: "q"}).(tea.QuitMsg); !quits {
		t.Error("q does not end it")
	}
}

func TestDoctor(t *testing.T) {
	server(t)
	says(t, 0, []string{"ok scripts", "ok server", "the budget is 30s"}, "doctor", "-budget", "30s")
	says(t, exitProblem, []string{"problem latency", "the budget is 1ns", "core.WithBudget"}, "doctor", "-budget", "1ns")
	says(t, exitProblem, []string{"problem persistence", "no append-only file"}, "doctor", "-budget", "30s", "-balances")
	says(t, exitUsage, []string{"-budget"}, "doctor", "-budget", "0s")
	_, text, _ := weir(t, "", "doctor", "-timeout", "1m") // a busy machine may be late
	if !strings.Contains(text, "the budget is 100ms") {
		t.Errorf("the doctor judges by another budget than programs have: %s", text)
	}
	found := make(map[string]bool)
	for _, f := range read[[]Finding](t, "doctor", "-budget", "30s") {
		found[f.Name] = f.Severity != "" && f.Found != ""
	}
	if !found["scripts"] || !found["retries"] {
		t.Errorf("%v", found)
	}
	says(t, exitProblem, []string{"problem connection", "there is a problem"}, "doctor", "-redis", "redis://127.0.0.1:1")
	says(t, exitUsage, []string{"no arguments"}, "doctor", "redis://127.0.0.1:1")
}

// The doctor names the policies of a file that forgive: they may settle at more than they reserve, and their limits could have debt.
func TestDoctorFindsMissingDebt(t *testing.T) {
	server(t)
	const named, owing = "limits: {named: 'gcra 9, 1/s'}\n", "limits: {owing: 'gcra 9, 1/s, debt 9'}\n"
	const rate = "plans: {rate: {free: 'leaky 5, 1/s, debt 5', '*': 'leaky 50, 1/s'}}\n"
	const owed = "plans: {owed: {free: 'leaky 5, 1/s, debt 5', '*': unlimited}}\n"
	examine := func(text string) []string {
		t.Helper()
		code, text, messages := weir(t, text,
			"doctor", "-budget", "30s", "-policies", "-", "-json")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, messages)
		}
		var findings []Finding
		if err := json.Unmarshal([]byte(text), &findings); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range findings {
			if f.Name == "debt" && f.Severity == string(doctor.Notice) {
				found = append(found, f.Found)
			}
		}
		if clean := findings[0].Name == "debt" && findings[0].Severity == string(doctor.OK); clean == (len(found) > 0) {
			t.Errorf("%+v", findings[0])
		}
		return found
	}
	const list = "policies:\n  - "
	for policy, under := range map[string]string{
		named + list + "{limit: named, key: ip, settle: {200: 2}}":                                                "gcra 9, 1/s",
		named + list + "{limit: named, key: ip, cost: 3, settle: {200: 2}}":                                       "",
		named + list + "{limit: named, key: ip, settle: tokens}":                                                  "gcra 9, 1/s",
		named + list + "{limit: named, key: ip, cost: tokens, settle: {200: 1}}":                                  "gcra 9, 1/s",
		named + list + "{limit: named, key: ip, settle: {5xx: 0, 4xx: 1}}":                                        "",
		named + list + "{limit: named, key: ip}":                                                                  "",
		owing + list + "{limit: owing, key: ip, settle: tokens}":                                                  "",
		rate + list + "{limit: rate, key: ip, settle: tokens}":                                                    "leaky 50, 1/s",
		owed + list + "{limit: owed, key: ip, settle: tokens}":                                                    "",
		list + "{limit: 'sliding-log 9, 1s', key: ip, settle: tokens}":                                            "", // it can have none
		list + "{limit: 'fixed-window 9, 1s', key: ip, settle: tokens}":                                           "fixed-window 9, 1s",
		owing + list + "{key: ip, settle: tokens, firstOf: [{limit: owing}, {limit: 'token-bucket 9, 1/s'}]}":     "token-bucket 9, 1/s",
		owing + list + "{key: ip, cost: 7, firstOf: [{limit: owing}, {limit: 'leaky 9, 1/s', settle: {200: 8}}]}": "leaky 9, 1/s",
	} {
		found := examine(policy)
		if (under == "") != (len(found) == 0) || under != "" && !strings.Contains(found[0], under) {
			t.Errorf("%s: %q, want one under %q", policy, found, under)
		}
	}
	says(t, exitInvalid, []string{"makes no sense"}, "doctor", "-policies", "-")
}

func TestStoresThatCannotBeAsked(t *testing.T) {
	for _, command := range [][]string{
		{"peek", "user:1"}, {"reset", "-all", "user:1"}, {"ban", "-ban", logins, "-for", "1h", "user:1"}, {"lift", "-ban", logins, "user:1"}, {"bans", "-ban", logins}, {"top"},
	} {
		says(t, exitFailed, []string{"connection refused"}, append(command[:1:1], append([]string{"-redis", "redis://127.0.0.1:1"}, command[1:]...)...)...)
		for _, flags := range [][]string{{"-redis", "memory:"}, {"-redis", "http://x"}, {"-prefix", "{x}"}, {"-prefix", "\x01"}, {"-timeout", "0s"}, {"-timeout", "soon"}} {
			if code, _, messages := weir(t, "", append(command[:1:1], append(flags, command[1:]...)...)...); code != exitUsage {
				t.Errorf("%q %q: exit code %d: %s", command, flags, code, messages)
			}
		}
	}
	for _, args := range [][]string{{"peek"}, {"peek", "-limit", "leaky", "x"}, {"top", "-rows", "0"}, {"top", "-every", "1ms"}, {"top", "a", "b"}} {
		says(t, exitUsage, nil, args...)
	}
}

func TestSeconds(t *testing.T) {
	if seconds(core.Never) != nil || *seconds(1500 * time.Millisecond) != 1.5 {
		t.Error("seconds")
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		decision core.Decision
		want     string
	}{
		{core.Decision{Allowed: true}, "passes"},
		{core.Decision{RetryAfter: 2340 * time.Millisecond}, "is denied for 2.4 s"},
		{core.Decision{RetryAfter: core.Never}, "never passes: it needs more than the limit has"},
		{core.Decision{RetryAfter: core.Never, Limit: core.Balance()}, "is denied until it is topped up"},
	} {
		if got := verdict(c.decision); got != c.want {
			t.Errorf("%+v: %q, want %q", c.decision, got, c.want)
		}
	}
}

func TestBalances(t *testing.T) {
	l := server(t)
	credits := core.Balance().Named("credits")
	says(t, 0, []string{"no key has a balance"}, "balances", "-balance", "credits")
	says(t, 0, []string{"user:1 is topped up: 500 left"}, "topup", "-balance", "credits", "-units", "500", "-id", "payment-7", "user:1")
	says(t, 0, []string{"user:1 was topped up by that id before: 500 left"}, "topup", "-balance", "credits: balance", "-units", "500", "-id", "payment-7", "user:1")
	says(t, 0, []string{"user:1 is topped up: 3 left"}, "topup", "-units", "3", "-id", "payment-7", "user:1")
	allow(t, l, core.Check{Key: "user:1", Limit: credits, Cost: 20})
	says(t, 0, []string{"user:1 480 20", "500 by payment-7"}, "balances", "-balance", "credits")
	says(t, 0, []string{"no key has a balance"}, "balances", "-balance", "credits", "team:")
	says(t, 0, []string{"user:1 credits: balance 480 left passes"}, "peek", "user:1")
	for _, args := range [][]string{
		{"topup", "-units", "5", "user:1"},
		{"topup", "-id", "a", "user:1"},
		{"topup", "-units", "5", "-id", "a"},
		{"topup", "-units", "-5", "-id", "a", "user:1"},
		{"topup", "-balance", "a b", "-units", "5", "-id", "a", "user:1"},
		{"restore"},
		{"balances", "a", "b"},
	} {
		says(t, exitUsage, nil, args...)
	}
	says(t, exitFailed, []string{"the id of a top-up has"}, "topup", "-units", "5", "-id", "a b", "user:1")

	exported := read[[]Balance](t, "balances", "-balance", "credits")
	file := filepath.Join(t.TempDir(), "balances.json")
	if err := os.WriteFile(file, []byte(says(t, 0, nil, "balances", "-json", "-balance", "credits")), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, 0, []string{"user:1 has a balance, which stays as it is"}, "restore", "-balance", "credits", file)
	server(t) // another one
	says(t, 0, []string{"user:1 has its balance again: 480 left"}, "restore", "-balance", "credits", file)
	if again := read[[]Balance](t, "balances", "-balance", "credits"); !reflect.DeepEqual(again, exported) || len(again) != 1 {
		t.Errorf("restored %+v, want %+v", again, exported)
	}
	says(t, 0, []string{"was topped up by that id before: 480 left"}, "topup", "-balance", "credits", "-units", "500", "-id", "payment-7", "user:1")
	says(t, 0, []string{"user:1 is as good as new under credits"}, "reset", "-limit", "credits", "user:1")
	says(t, 0, []string{"user:1 0 0"}, "balances", "-balance", "credits")
	for _, text := range []string{"", "null", "{}", `["user:1"]`, `[{"key": "user:1", "spent": 0, "topups": []}]`, `[{"key": "user:1", "remaining": 3}]`, "[] []"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, exitFailed, []string{"is no list of weir balances -json"}, "restore", "-balance", "credits", file)
	}
}

// A list that weir restore would not read is an error when it is written.
func TestCopyIsNoLongerThanRestoreReads(t *testing.T) {
	var out strings.Builder
	if err := writeCopy(&out, []Balance{{Key: "user:1"}}, 1000); err != nil {
		t.Error(err)
	}
	size := int64(out.Len())
	for most, fits := range map[int64]bool{size - 1: false, size: true} {
		if err := writeCopy(io.Discard, []Balance{{Key: "user:1"}}, most); (err == nil) != fits {
			t.Errorf("%d bytes of %d at most: %v", size, most, err)
		}
	}
}

// Keys are any bytes, and JSON is not.
func TestBalancesOfKeysThatAreNoText(t *testing.T) {
	l := server(t)
	credits := core.Balance()
	keys := []string{"user:\xff", "user:\xfe", "user:\ufffd"}
	for i, key := range keys {
		if _, _, err := l.TopUp(t.Context(), key, credits, i+1, "payment"); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "balances.json")
	if err := os.WriteFile(file, []byte(says(t, 0, nil, "balances", "-json")), 0o600); err != nil {
		t.Fatal(err)
	}
	l = server(t) // another one
	says(t, 0, []string{"has its balance again: 1 left", "has its balance again: 2 left", "has its balance again: 3 left"}, "restore", file)
	for i, key := range keys {
		if d, err := l.Peek(t.Context(), key, credits); err != nil || d.Remaining != i+1 {
			t.Errorf("%q has %d, want %d: %v", key, d.Remaining, i+1, err)
		}
	}
}
