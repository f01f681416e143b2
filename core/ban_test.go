package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestBanDefaultsAndText(t *testing.T) {
	strikes := core.SlidingLog(5, 10*time.Minute)
	for _, c := range []struct {
		ban  core.Ban
		want string
	}{
		{core.Ban{Strikes: strikes}.Named("logins"), "logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d"},
		{core.Ban{Strikes: strikes, First: 30 * 24 * time.Hour, Factor: 3, Forget: time.Hour, Extend: true}, "ban 5, 10m, first 30d, factor 3, longest 30d, forget 1h, extend"},
	} {
		if err := c.ban.Validate(); err != nil || c.ban.String() != c.want {
			t.Errorf("%v, %q, want %q", err, c.ban, c.want)
		}
		again, err := core.ParseBan(c.want)
		if err != nil || again.Limit() != c.ban.Limit() || again.String() != c.want {
			t.Errorf("%q is read as %v, %v", c.want, again, err)
		}
	}
}

func TestBansThatMakeNoSense(t *testing.T) {
	log := core.SlidingLog(5, time.Minute)
	for want, ban := range map[string]core.Ban{
		"the strikes of a ban: ":                            {},
		"want a SlidingLog without a name":                  {Strikes: core.Leaky(5, core.PerMinute(1))},
		"are login: sliding-log":                            {Strikes: log.Named("login")},
		"1001 strikes are more than 1000":                   {Strikes: core.SlidingLog(1001, time.Minute)},
		"factor -1 is not from 1 to 1000":                   {Strikes: log, Factor: -1},
		"factor 1001 is not":                                {Strikes: log, Factor: 1001},
		"the longest ban of 1s is shorter than the first":   {Strikes: log, Longest: time.Second},
		"the first ban of 1µs is shorter":                   {Strikes: log, First: time.Microsecond},
		"the longest ban of 96360h0m0s is longer":           {Strikes: log, Longest: 11 * 365 * 24 * time.Hour},
		"the time to forget of 96360h0m0s is longer":        {Strikes: log, Forget: 11 * 365 * 24 * time.Hour},
		"the time to forget of -1s is shorter":              {Strikes: log, Forget: -time.Second},
		"is not a whole number of microseconds":             {Strikes: log, First: time.Second + 1},
		"limit name \"a b\" has":                            core.Ban{Strikes: log}.Named("a b"),
		"the strikes of a ban: core: sliding-log 5, 1m0.0":  {Strikes: core.SlidingLog(5, time.Minute+time.Nanosecond)},
		"strikes that count for 96360h0m0s are longer than": {Strikes: core.SlidingLog(5, 11*365*24*time.Hour), First: time.Hour},
	} {
		err := ban.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || core.FailureOf(err) != core.FailureOf(core.Quota{}.Validate()) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if ban.Limit().Validate() == nil {
			t.Errorf("%v makes a valid limit", want)
		}
	}
	for _, text := range []string{
		"leaky 10, 1/s", "ban 5, 10m", "ban 5, 10m, first 10m, factor 2, longest 7d", "ban 5, 1/s, first 10m, factor 2, longest 7d, forget 1d",
		"ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d, expand", "ban 5, 10m, factor 2, first 10m, longest 7d, forget 1d",
	} {
		if ban, err := core.ParseBan(text); err == nil {
			t.Errorf("%q is read as %v", text, ban)
		}
	}
}

// Whatever text is a ban is the same ban when it is written and read again.
func FuzzParseBan(f *testing.F) {
	f.Add("logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d")
	f.Add("ban 1000 ,1us, first  1ms, factor 1000, longest 3650d, forget 1ns, extend")
	f.Fuzz(func(t *testing.T, text string) {
		ban, err := core.ParseBan(text)
		if err != nil {
			return
		}
		again, err := core.ParseBan(ban.String())
		if err != nil || again != ban || again.Limit() != ban.Limit() {
			t.Fatalf("%q is %v, which is read as %v, %v", text, ban, again, err)
		}
	})
}

// What is asked of Redis: one round trip for a call, whether it strikes or not, and nothing is written under a ban.
func TestBansTakeOneRoundTripAndLeaveNoKey(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	ban := core.Ban{Strikes: core.SlidingLog(2, time.Minute), First: time.Hour, Forget: time.Hour}.Named("ban")
	rate := core.FixedWindow(1, time.Hour)
	call := func(want ...bool) {
		t.Helper()
		before := server.Calls(t, "evalsha")
		d, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: rate}, core.Check{Key: "key", Limit: ban.Limit(), Mode: core.OnDenial})
		if err != nil || d[0].Allowed != want[0] || d[1].Allowed != want[1] {
			t.Errorf("%+v, %v, want %v", d, err, want)
		}
		if trips := server.Calls(t, "evalsha") - before; trips != 1 {
			t.Errorf("%d round trips, want one", trips)
		}
	}
	keys := func() int64 {
		n, err := client.DBSize(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _ = limiter.AllowAll(t.Context(), core.Check{Key: "other", Limit: rate}, core.Check{Key: "other", Limit: ban.Limit(), Mode: core.OnDenial}) // loads the script
	if got := keys(); got != 1 {
		t.Errorf("%d keys after a call that passes, want that of the rate", got)
	}
	call(true, true)
	call(false, true)
	call(false, true) // the second strike
	name := client.Keys(t.Context(), "*ban=ban").Val()
	if len(name) != 1 {
		t.Fatalf("keys of bans: %v", name)
	}
	if ttl := client.PTTL(t.Context(), name[0]).Val(); ttl < 2*time.Hour || ttl > 2*time.Hour+6*time.Minute+10*time.Second {
		t.Errorf("the ban lives for %v, want its hour and the hour until it is forgotten", ttl)
	}
	if err := limiter.Reset(t.Context(), "key", rate); err != nil {
		t.Fatal(err)
	}
	before, fields := keys(), client.HGetAll(t.Context(), name[0]).Val()
	for range 5 {
		call(true, false)
	}
	if after := client.HGetAll(t.Context(), name[0]).Val(); keys() != before || after["until"] != fields["until"] {
		t.Errorf("hammering under a ban: %d keys, %v, want %d, %v", keys(), after, before, fields)
	}
	if fields["count"] != "1" || fields["strikes"] != "" {
		t.Errorf("the ban is %v", fields)
	}
}

// A key that no ban could have left is replaced, and bans nobody.
func TestDamagedBansHeal(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := t.Context()
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	ban := core.Ban{Strikes: core.SlidingLog(2, time.Minute), First: time.Hour}.Named("ban")
	const name = "ratelimit:{key}:ban=ban"
	far := "9007199254740993"
	for what, damage := range map[string]func(){
		"a string":            func() { client.Set(ctx, name, "x", 0) },
		"no count":            func() { client.HSet(ctx, name, "until", far) },
		"a count of text":     func() { client.HSet(ctx, name, "count", "x", "until", "1") },
		"an end too late":     func() { client.HSet(ctx, name, "count", "1", "since", "1", "until", far) },
		"an end before":       func() { client.HSet(ctx, name, "count", "1", "since", "5", "until", "1") },
		"strikes of text":     func() { client.HSet(ctx, name, "count", "0", "strikes", "1 x 3") },
		"strikes out of line": func() { client.HSet(ctx, name, "count", "0", "strikes", "3 1") },
	} {
		for how, use := range map[string]func() error{
			"asked": func() error {
				_, err := limiter.AllowAll(ctx, core.Check{Key: "key", Limit: ban.Limit(), Mode: core.Condition})
				return err
			},
			"struck":         func() error { _, err := limiter.Strike(ctx, "key", ban, 1); return err },
			"called":         func() error { _, err := limiter.AllowAll(ctx, core.Check{Key: "key", Limit: ban.Limit()}); return err },
			"banned by hand": func() error { return limiter.Ban(ctx, "key", ban, time.Minute, "") },
		} {
			client.Del(ctx, name)
			damage()
			if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 || keys[0] != name {
				t.Fatalf("the keys are %v, want %s", keys, name)
			}
			if err := use(); err != nil {
				t.Errorf("%s, %s: %v", what, how, err)
			}
			left, err := limiter.Banned(ctx, "key", ban)
			if err != nil || (left > 0) != (how == "banned by hand") || left > time.Minute {
				t.Errorf("%s, %s: banned for %v, %v", what, how, left, err)
			}
			if ttl := client.PTTL(ctx, name).Val(); ttl == -1 && (what != "no count" || how != "asked") { // which is as good as none
				t.Errorf("%s, %s: the key has no time to live", what, how)
			}
		}
	}
}

func TestNobodyWaitsByStrikes(t *testing.T) {
	limiter := core.New(core.NewMemory())
	ban := core.Ban{Strikes: core.SlidingLog(2, time.Minute)}
	_, err := limiter.WaitAll(t.Context(), []core.Check{{Key: "key", Limit: ban.Limit(), Mode: core.OnDenial}})
	if err == nil || !strings.Contains(err.Error(), "OnDenial") {
		t.Errorf("%v, want that a call which waits is denied many times", err)
	}
}
