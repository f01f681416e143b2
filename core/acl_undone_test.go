package core_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// contents returns what a server holds, but for times to live.
func contents(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range client.Keys(t.Context(), "*").Val() {
		all[key] = client.Dump(t.Context(), key).Val()
	}
	return all
}

// stage is a store on a server in two hands: of an administrator, and of a user who lacks something.
type stage struct {
	all, lacking core.Store
	limit        core.Limit
	now          *time.Time
	held         core.Receipt // of a charge of 3 to "used"
	open         core.Receipt // of a charge of 2 to "open" for a minute
}

func (s *stage) check(key string, cost int) core.Check {
	return core.Check{Key: key, Limit: s.limit, Cost: cost}
}

func (s *stage) reserving(cost int) core.Check {
	c := s.check("open", cost)
	c.ReserveFor = time.Minute
	return c
}

func decideWith(ctx context.Context, store core.Store, checks ...core.Check) (core.Receipt, error) {
	calls := []core.Call{{Checks: checks, Decisions: make([]core.Decision, len(checks)), Receipts: make([]core.Receipt, len(checks))}}
	_, err := store.Decide(ctx, calls)
	return calls[0].Receipts[0], err
}

// acts is all that is asked of a store. Each finds a key "used" with three units, and where units can be reserved for a
// time, a key "open" with two.
var acts = map[string]func(ctx context.Context, s *stage) error{
	"check": func(ctx context.Context, s *stage) error {
		_, err := decideWith(ctx, s.lacking, s.check("new", 1))
		return err
	},
	"check again": func(ctx context.Context, s *stage) error {
		_, err := decideWith(ctx, s.lacking, s.check("used", 2))
		return err
	},
	"check two": func(ctx context.Context, s *stage) error {
		_, err := decideWith(ctx, s.lacking, s.check("used", 2), core.Check{Key: "used", Limit: core.GCRA(9, core.PerHour(1)), Cost: 1})
		return err
	},
	"check later": func(ctx context.Context, s *stage) error {
		*s.now = s.now.Add(9 * time.Minute)
		_, err := decideWith(ctx, s.lacking, s.check("used", 2))
		return err
	},
	"deny": func(ctx context.Context, s *stage) error {
		*s.now = s.now.Truncate(16 * time.Microsecond)
		_, err := decideWith(ctx, s.lacking, s.check("used", 9))
		return err
	},
	"strike": func(ctx context.Context, s *stage) error {
		c := s.check("used", 9)
		c.Mode = core.OnDenial
		_, err := decideWith(ctx, s.lacking, c, core.Check{Key: "used", Limit: core.FixedWindow(1, time.Hour), Cost: 2})
		return err
	},
	"look": func(ctx context.Context, s *stage) error {
		c := s.check("used", 0)
		c.Mode = core.Look
		_, err := decideWith(ctx, s.lacking, c)
		return err
	},
	"give back": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.check("used", 3), Receipt: s.held}})
	},
	"give some back": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.check("used", 3), Receipt: s.held, Cost: 1}})
	},
	"add": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.check("used", 3), Receipt: s.held, Cost: 5}})
	},
	"raise": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.check("used", 0), Cost: 7, Raise: true}})
	},
	"renew": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.check("used", 3), Receipt: s.held, Renew: true}})
	},
	"reset": func(ctx context.Context, s *stage) error {
		return s.lacking.Reset(ctx, "used", []core.Limit{s.limit})
	},
	"reserve": func(ctx context.Context, s *stage) error {
		_, err := decideWith(ctx, s.lacking, s.reserving(1))
		return err
	},
	"reserve later": func(ctx context.Context, s *stage) error {
		*s.now = s.now.Add(2 * time.Minute)
		_, err := decideWith(ctx, s.lacking, s.reserving(1))
		return err
	},
	"close": func(ctx context.Context, s *stage) error {
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.reserving(2), Receipt: s.open, Cost: 1}})
	},
	"close late": func(ctx context.Context, s *stage) error {
		*s.now = s.now.Add(2 * time.Minute)
		return s.lacking.Settle(ctx, []core.Settlement{{Check: s.reserving(2), Receipt: s.open, Cost: 1}})
	},
}

// suits reports whether an act can be asked of a limit.
func suits(act string, limit core.Limit) bool {
	holds, bans := limit.Algorithm() == "concurrent", limit.Algorithm() == "ban"
	switch act {
	case "renew":
		return holds
	case "strike":
		return bans
	case "reserve", "reserve later", "close", "close late":
		return !holds && !bans && limit.Algorithm() != "calendar"
	case "add", "raise", "give some back":
		return !holds
	}
	return true
}

// everyLimit is a limit of each algorithm, and named ones, which may be left by other numbers.
func everyLimit(n int) []core.Limit {
	limits := []core.Limit{
		core.Concurrent(n, time.Minute), core.Calendar(n, core.Every(time.Hour)),
		core.GCRA(n, core.PerHour(1)).Named("named"), core.SlidingWindow(n, time.Hour).Named("named"),
		core.Ban{Strikes: core.SlidingLog(n, time.Hour), First: time.Minute}.Limit(),
	}
	for _, hour := range hourly {
		limits = append(limits, hour(n))
	}
	return limits
}

// stageFor prepares a server for an act under a limit, at an instant.
func stageFor(t *testing.T, admin *redis.Client, all, lacking core.Store, limit core.Limit, now *time.Time) *stage {
	t.Helper()
	s := &stage{all: all, lacking: lacking, limit: limit, now: now}
	admin.FlushAll(t.Context())
	var err error
	if s.held, err = decideWith(t.Context(), s.all, s.check("used", 3)); err != nil {
		t.Fatal(err)
	}
	if suits("reserve", limit) {
		if s.open, err = decideWith(t.Context(), s.all, s.reserving(2)); err != nil {
			t.Fatal(err)
		}
	}
	*now = now.Add(time.Second)
	return s
}

// eachAct has each act done under each limit by a client to which something is refused from begin to end. It calls tell
// with the error of each that fails, and whether something has changed on the server. It leaves out what skips names.
func eachAct(
	t *testing.T, admin, refused *redis.Client, skips func(act string, limit core.Limit) bool, begin, end func(), tell func(of string, err error, changed bool),
) {
	t.Helper()
	calm := core.WithBreaker(1<<30, time.Second)
	for _, limit := range everyLimit(9) {
		var now time.Time
		clock := core.WithClock(func() time.Time { return now })
		all, lacking := core.NewRedis(admin, core.WithBudget(patient), clock, calm), core.NewRedis(refused, core.WithBudget(patient), clock, calm)
		for name, act := range acts {
			if !suits(name, limit) || skips(name, limit) {
				continue
			}
			now = time.Now()
			s := stageFor(t, admin, all, lacking, limit, &now)
			before := contents(t, admin)
			begin()
			err := act(t.Context(), s)
			end()
			if err != nil {
				tell(name+" of "+limit.String(), err, !maps.Equal(before, contents(t, admin)))
			}
		}
		_, _ = all.Close(), lacking.Close()
	}
}

// nothing skips no act.
func nothing(string, core.Limit) bool { return false }

// commandsOfActs returns which commands each act calls under each limit, at an instant at which it looks at all that it ever looks at.
func commandsOfActs(t *testing.T, admin *redis.Client) (called func(act string, limit core.Limit, command string) bool) {
	t.Helper()
	statistics := make(map[string]string)
	for _, limit := range everyLimit(9) {
		var now time.Time
		store := core.NewRedis(admin, core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
		for name, act := range acts {
			if !suits(name, limit) {
				continue
			}
			now = time.Now().Truncate(16 * time.Microsecond)
			s := stageFor(t, admin, store, store, limit, &now)
			admin.ConfigResetStat(t.Context())
			if err := act(t.Context(), s); err != nil {
				t.Fatalf("%s of %s: %v", name, limit, err)
			}
			statistics[name+" of "+limit.String()] = admin.Info(t.Context(), "commandstats").Val()
		}
		_ = store.Close()
	}
	return func(act string, limit core.Limit, command string) bool {
		return strings.Contains(statistics[act+" of "+limit.String()], "cmdstat_"+command+":")
	}
}

// An error that is ErrNotDone is certain: Redis refuses a user command by command, also after some commands of a script,
// and whatever the user lacks, nothing was written.
func TestNothingIsWrittenWhereItIsCertain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	called := commandsOfActs(t, admin)
	certain, uncertain := 0, 0
	for _, command := range slices.Concat(redistest.CommandsOf(redistest.AloneUser), []string{"keys"}) {
		rules := redistest.Without(redistest.AloneUser, "+"+command)
		if command == "keys" { // but the prefix
			rules = strings.ReplaceAll(redistest.AloneUser, "~ratelimit:*", "~other:*")
		}
		redistest.SetUser(t, admin, "lacks-"+command, rules)
		lacking := server.Client(t, func(o *redis.Options) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = "lacks-"+command, "secret", -1, true
		})
		begin := func() {
			if command == "eval" {
				admin.ScriptFlush(t.Context())
			}
		}
		// Who lacks what an act never calls is not refused anything. How scripts come to the server is up to more than the act.
		skips := func(act string, limit core.Limit) bool {
			return command != "keys" && !strings.HasPrefix(command, "eval") && !strings.HasPrefix(command, "script") && !called(act, limit, command)
		}
		eachAct(t, admin, lacking, skips, begin, func() {}, func(of string, err error, changed bool) {
			claimed := errors.Is(err, core.ErrNotDone)
			switch {
			case claimed && changed:
				t.Errorf("without %s, %s has written something, and says that nothing was done: %v", command, of, err)
			case claimed:
				certain++
			case command == "evalsha" || command == "eval" || command == "keys":
				t.Errorf("without %s, %s is not known to have done nothing: %v", command, of, err)
			default:
				uncertain++
			}
			if core.FailureOf(err) != "not-permitted" {
				t.Errorf("without %s, %s: %q, want not-permitted: %v", command, of, core.FailureOf(err), err)
			}
		})
	}
	if certain == 0 || uncertain == 0 {
		t.Errorf("%d were certain and %d not, want some of each", certain, uncertain)
	}
}

// A server that refuses each command that writes has written nothing. One whose memory is full refuses some of them.
func TestNothingIsWrittenByAServerThatRefusesToWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	client := server.Client(t, func(o *redis.Options) { o.MaxRetries, o.ContextTimeoutEnabled = -1, true })
	set := func(words ...any) func() {
		return func() {
			if err := admin.Do(t.Context(), words...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for kind, c := range map[core.Failure]struct {
		begin, end func()
		certain    bool
	}{
		"read-only":     {set("replicaof", "127.0.0.1", "1"), set("replicaof", "no", "one"), true},
		"misconfigured": {set("config", "set", "min-replicas-to-write", "1"), set("config", "set", "min-replicas-to-write", "0"), true},
		"out-of-memory": {set("config", "set", "maxmemory", "1"), set("config", "set", "maxmemory", "0"), false},
	} {
		failed := 0
		eachAct(t, admin, client, nothing, c.begin, c.end, func(of string, err error, changed bool) {
			failed++
			if core.FailureOf(err) != kind || errors.Is(err, core.ErrNotDone) != c.certain || changed {
				t.Errorf("%s: %s: changed %t, not done for certain %t, want %t: %v", kind, of, changed, errors.Is(err, core.ErrNotDone), c.certain, err)
			}
		})
		if failed < 50 {
			t.Errorf("%s: %d acts have failed, want most of them", kind, failed)
		}
	}
}

// What ends is given back once, also if Redis refuses in the middle of it: a reservation whose time is over gives back no
// more units than it has charged.
func TestWhatEndsIsGivenBackOnceWhateverIsRefused(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, command := range []string{"pexpireat", "set", "get", "unlink", "hset", "pttl", "ltrim", "lrem", "rpush", "zrem", "hdel"} {
		redistest.SetUser(t, admin, "lacks-"+command, redistest.Without(redistest.AloneUser, "+"+command))
		lacking := server.Client(t, func(o *redis.Options) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = "lacks-"+command, "secret", -1, true
		})
		for _, hour := range hourly {
			now := time.Now()
			s := &stage{limit: hour(9), now: &now}
			if !suits("reserve", s.limit) {
				continue
			}
			clock := core.WithClock(func() time.Time { return now })
			s.all, s.lacking = core.NewRedis(admin, core.WithBudget(patient), clock), core.NewRedis(lacking, core.WithBudget(patient), clock)
			admin.FlushAll(t.Context())
			if _, err := decideWith(t.Context(), s.all, s.check("open", 6)); err != nil {
				t.Fatal(err)
			}
			if _, err := decideWith(t.Context(), s.all, s.reserving(2)); err != nil {
				t.Fatal(err)
			}
			now = now.Add(61 * time.Second)
			for range 5 {
				r, err := core.New(s.lacking).Reserve(t.Context(), s.reserving(9)) // which gives back first
				if err == nil && r.Allowed() {
					t.Errorf("without %s, 9 of %s are free, of which 6 are in use", command, s.limit)
				}
			}
			d, err := core.New(s.all).Peek(t.Context(), "open", s.limit)
			if err != nil {
				t.Fatal(err)
			}
			if most := 9 - 6 + 1; d.Remaining > most { // with what has drained meanwhile
				t.Errorf("without %s, %d of %s are left, want %d at most", command, d.Remaining, s.limit, most)
			}
		}
	}
}

// A place that was taken by a script which Redis has refused to finish is given back.
func TestAPlaceOfARefusedScriptIsGivenBack(t *testing.T) {
	server := redistest.Start(t)
	redistest.SetUser(t, server.Client(t), "lacking", redistest.Without(redistest.AloneUser, "+pexpireat"))
	client := server.Client(t, func(o *redis.Options) {
		o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = "lacking", "secret", -1, true
	})
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient)))
	defer limiter.Close()
	one := core.Concurrent(1, 10*time.Minute)
	if _, err := limiter.TryAcquire(t.Context(), "key", one); core.FailureOf(err) != "not-permitted" || errors.Is(err, core.ErrNotDone) {
		t.Fatalf("%v, want that it is not permitted, and not known to have done nothing", err)
	}
	all := core.New(core.NewRedis(server.Client(t), core.WithBudget(patient)))
	defer all.Close()
	for deadline := time.Now().Add(patient); ; {
		d, err := all.Peek(t.Context(), "key", one)
		if err != nil {
			t.Fatal(err)
		}
		if d.Remaining == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the place is not given back")
		}
	}
}

// A settlement that Redis has refused to finish is not repeated: nothing is given back twice.
func TestARefusedSettlementIsNotRepeated(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	redistest.SetUser(t, admin, "limiter", redistest.AloneUser)
	client := server.Client(t, func(o *redis.Options) {
		o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = "limiter", "secret", -1, true
	})
	for name, hour := range hourly {
		limit := hour(200)
		if limit.Algorithm() == "concurrent" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			limiter := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithClock(func() time.Time { return now })))
			defer limiter.Close()
			admin.FlushAll(t.Context())
			redistest.SetUser(t, admin, "limiter", "+pexpireat")
			own, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 10})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := limiter.AllowN(t.Context(), "key", limit, 190); err != nil { // of others
				t.Fatal(err)
			}
			redistest.SetUser(t, admin, "limiter", "-pexpireat")
			for range 30 {
				if err = own.Settle(t.Context(), 1); !errors.Is(err, core.ErrNotDone) {
					break
				}
			}
			_ = limiter.Close()
			redistest.SetUser(t, admin, "limiter", "+pexpireat")
			d, err := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithClock(func() time.Time { return now }))).Peek(t.Context(), "key", limit)
			if err != nil || d.Remaining > 9 {
				t.Errorf("%d are left, %v, want 9 at most", d.Remaining, err)
			}
		})
	}
}
