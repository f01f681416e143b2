package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// attempt is a command that a limiter needs, tried on a key that is not there.
type attempt struct {
	name  string // as ACL SETUSER takes it
	words []any
}

// harmless is a script that does nothing.
var harmless = redis.NewScript(harmlessSource)

const harmlessSource = "return 1"

// harmlessAttempts are the commands that change nothing where there is no key.
func (e *examination) harmlessAttempts(key string) []attempt {
	attempts := []attempt{
		{"evalsha", []any{"evalsha", harmless.Hash(), 0}},
		{"eval", []any{"eval", harmlessSource, 0}},
		{"script|exists", []any{"script", "exists", harmless.Hash()}},
		{"script|load", []any{"script", "load", harmlessSource}},
		{"time", []any{"time"}},
		{"get", []any{"get", key}},
		{"set", []any{"set", key, 1, "xx", "keepttl"}},
		{"unlink", []any{"unlink", key}},
		{"hdel", []any{"hdel", key, "field"}},
		{"hmget", []any{"hmget", key, "field"}},
		{"persist", []any{"persist", key}},
		{"pexpireat", []any{"pexpireat", key, 1}},
		{"pttl", []any{"pttl", key}},
		{"llen", []any{"llen", key}},
		{"lindex", []any{"lindex", key, 0}},
		{"lrange", []any{"lrange", key, 0, 0}},
		{"ltrim", []any{"ltrim", key, 0, 0}},
		{"lrem", []any{"lrem", key, 0, 1}},
		{"zadd", []any{"zadd", key, "xx", 1, "member"}},
		{"zcard", []any{"zcard", key}},
		{"zcount", []any{"zcount", key, 0, 1}},
		{"zrange", []any{"zrange", key, 0, 1}},
		{"zrem", []any{"zrem", key, "member"}},
		{"zrevrank", []any{"zrevrank", key, "."}},
		{"zscore", []any{"zscore", key, "member"}},
		{"publish", []any{"publish", e.channel(), ""}},
	}
	switch {
	case e.store.Topology().Cluster != nil:
		// Asking is for the next command, so it is not the last.
		attempts = append(attempts, attempt{"asking", []any{"asking"}}, attempt{"command", []any{"command", "count"}})
	case e.store.Topology().Ring != nil:
		attempts = append(attempts, attempt{"ping", []any{"ping"}})
	}
	return attempts
}

// channel returns the name of a channel for waiters that has no listener.
func (e *examination) channel() string { return e.store.Prefix + ":waiting:doctor" }

// subscribe tries to listen to that channel, and adds refusals of Redis.
func (e *examination) subscribe(ctx context.Context, refused *refusals) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	subscription := e.client.Subscribe(ctx, e.channel())
	defer func() { _ = subscription.Close() }()
	switch _, err := subscription.Receive(ctx); {
	case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), " channel"):
		refused.channel = true
	case redis.HasErrorPrefix(err, "NOPERM"):
		refused.commands = append(refused.commands, "subscribe")
	case err != nil && !isServersAnswer(err):
		return err
	}
	return nil
}

// writingAttempts are commands that make a key, and commands that delete it at once. The key would also expire by
// itself.
func writingAttempts(key string, soon int64) []attempt {
	return []attempt{
		{"hset", []any{"hset", key, "field", 1}},
		{"", []any{"pexpireat", key, soon}},
		{"", []any{"unlink", key}},
		{"rpush", []any{"rpush", key, 1}},
		{"", []any{"pexpireat", key, soon}},
		{"", []any{"unlink", key}},
	}
}

// refusals are the attempts that Redis has refused.
type refusals struct {
	commands []string // that the user may not run
	unknown  []string // that the server does not have
	key      bool     // the user may not touch the key
	channel  bool     // the user may not use the channel
}

func (r *refusals) any() bool { return r.key || r.channel || len(r.commands)+len(r.unknown) > 0 }

// attempt sends attempts in one pipeline, and adds the refused ones.
func (e *examination) attempt(ctx context.Context, attempts []attempt, refused *refusals) error {
	pipeline := e.client.Pipeline()
	replies := make([]*redis.Cmd, len(attempts))
	for i, a := range attempts {
		replies[i] = pipeline.Do(ctx, a.words...)
	}
	_, _ = pipeline.Exec(ctx) // the replies carry the errors
	for i, reply := range replies {
		switch err, name := reply.Err(), attempts[i].name; {
		case redis.HasErrorPrefix(err, "OOM"):
			e.full = true
		case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), " key"):
			refused.key = true
		case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), " channel"):
			refused.channel = true
		case redis.HasErrorPrefix(err, "NOPERM") && name != "":
			refused.commands = append(refused.commands, name)
		case redis.HasErrorPrefix(err, "unknown command") && name != "":
			refused.unknown = append(refused.unknown, name)
		case err != nil && !isServersAnswer(err):
			return err
		}
	}
	return nil
}

// lookAtPermissions tries every command that a limiter needs.
func (e *examination) lookAtPermissions(ctx context.Context) {
	key := e.tag() + "permissions"
	attempts, refused := e.harmlessAttempts(key), refusals{}
	err := e.attempt(ctx, attempts, &refused)
	if err == nil {
		attempts = append(attempts, attempt{name: "subscribe"})
		err = e.subscribe(ctx, &refused)
	}
	lacks := func(name string) bool {
		return slices.Contains(refused.commands, name) || slices.Contains(refused.unknown, name)
	}
	e.mayDelete = err == nil && !refused.key && !lacks("unlink") && !lacks("pexpireat")
	if e.mayDelete {
		writing := writingAttempts(key, time.Now().Add(time.Minute).UnixMilli())
		err = e.attempt(ctx, writing, &refused)
		attempts = append(attempts, writing...)
	}
	e.add(e.judgePermissions(attempts, refused, err))
}

func (e *examination) judgePermissions(attempts []attempt, refused refusals, err error) Finding {
	f := Finding{Name: "permissions", Severity: Problem}
	pattern := "~" + e.store.Prefix + ":*"
	switch {
	case err != nil:
		f.Found = err.Error()
		f.Meaning, f.Advice = explainFailure(err)
	case !refused.any():
		f.Severity = OK
		count := 0
		for _, a := range attempts {
			if a.name != "" {
				count++
			}
		}
		f.Found = fmt.Sprintf("all of %d commands, on keys %s", count, pattern)
	case refused.key:
		f.Found = fmt.Sprintf("the user may not touch keys that start with %q", e.store.Prefix+":")
		f.Meaning = "Every call is an error."
		f.Advice = "As an administrator: ACL SETUSER <the user> " + pattern
	case len(refused.unknown) > 0:
		f.Found = "the server does not know " + strings.ToUpper(strings.Join(refused.unknown, ", "))
		f.Meaning = "Some calls are errors, or leave something undone."
		f.Advice = "Use Redis 6.2 or newer, or Valkey, with no command renamed or disabled."
	case len(refused.commands) == 0 || !slices.ContainsFunc(refused.commands, func(name string) bool { return name != "publish" && name != "subscribe" }):
		f.Severity = Notice
		f.Found = "the user may not publish and subscribe on channels " + strings.TrimPrefix(pattern, "~")
		f.Meaning = "Those who wait for places are not woken when it is their turn. They poll, and chance decides between processes."
		f.Advice = "As an administrator: ACL SETUSER <the user> &" + strings.TrimPrefix(pattern, "~") + " +publish +subscribe"
	case slices.Equal(refused.commands, []string{"command"}):
		f.Severity = Notice
		f.Found = "the user may not run COMMAND"
		f.Meaning = "Newer versions of go-redis ask for it in a cluster, and if that is refused, again with every call."
		f.Advice = "As an administrator: ACL SETUSER <the user> +command"
	default:
		f.Found = "the user may not run " + strings.ToUpper(strings.Join(refused.commands, ", "))
		f.Meaning = "Some calls are errors, or leave something undone."
		f.Advice = "As an administrator: ACL SETUSER <the user> +" + strings.Join(refused.commands, " +")
	}
	return f
}

// trialLimits are a limit of each algorithm that admits one unit, and forgets it soon: that of a ban
// admits one strike, which begins a ban.
func trialLimits() (limits []core.Limit) {
	for algorithm := range exact.All() {
		if algorithm.Shares() || algorithm.Prepaid() { // which are not asked alone, or admit nothing that was not paid for
			continue
		}
		limit, err := core.ParseLimit(algorithm.Trial())
		if err != nil {
			panic(err)
		}
		limits = append(limits, limit)
	}
	return limits
}

// lookAtScripts lets each algorithm admit a unit and deny another. If the user may not
// delete keys, it only peeks.
func (e *examination) lookAtScripts(ctx context.Context) {
	limits := trialLimits()
	var failures []string
	var first error
	for _, limit := range limits {
		if err := e.try(ctx, limit); err != nil {
			failures, first = append(failures, limit.Algorithm()), cmp.Or(first, err)
			e.full = e.full || core.FailureOf(err) == "out-of-memory"
		}
	}
	f := Finding{Name: "scripts", Severity: OK, Found: fmt.Sprintf("all of %d algorithms admit and deny", len(limits))}
	switch {
	case first != nil:
		f.Severity = Problem
		f.Found = fmt.Sprintf("%d of %d algorithms fail (%s): %.200s", len(failures), len(limits), strings.Join(failures, ", "),
			strings.TrimPrefix(first.Error(), "core: "))
		f.Meaning, f.Advice = explainFailure(first)
	case !e.mayDelete:
		f.Severity = Notice
		f.Found = fmt.Sprintf("all of %d algorithms answer; nothing was charged, since it could not be deleted again", len(limits))
	}
	e.add(f)
}

// try asks one algorithm, on a key of its own, and deletes that.
func (e *examination) try(ctx context.Context, limit core.Limit) (err error) {
	if !e.mayDelete {
		_, err := e.limiter.Peek(ctx, e.subject, limit)
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx) // a charge that is given up could arrive after that
	defer func() {
		if failure := e.erase(ctx, limit); err == nil {
			err = failure
		}
	}()
	for i, want := range [...]bool{true, false} {
		r, err := e.limiter.Reserve(ctx, core.Check{Key: e.subject, Limit: limit})
		if err != nil {
			return err
		}
		if r.Allowed() {
			defer func() { // before the state is deleted
				if failure := r.Cancel(ctx); err == nil {
					err = failure
				}
			}()
		}
		if d := r.Decisions()[0]; d.Allowed != want || d.Remaining != 0 || (d.RetryAfter > 0) == want {
			return fmt.Errorf("of a limit of 1, request %d is allowed: %t, with %d left and %v to wait", i+1, d.Allowed, d.Remaining, d.RetryAfter)
		}
	}
	return nil
}

// erase deletes the state of the subject under a limit.
func (e *examination) erase(ctx context.Context, limit core.Limit) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := e.tag() + limit.Name()
	return e.client.Unlink(ctx, name).Err()
}

// lookAtLatency makes some calls one after the other.
func (e *examination) lookAtLatency(ctx context.Context) {
	const most, enough = 20, time.Second
	limit := trialLimits()[0]
	var took []time.Duration
	for start := time.Now(); len(took) < most && time.Since(start) < enough; {
		sent := time.Now()
		if _, err := e.limiter.Peek(ctx, e.subject, limit); err != nil {
			f := Finding{Name: "latency", Severity: Problem, Found: strings.TrimPrefix(err.Error(), "core: ")}
			f.Meaning, f.Advice = explainFailure(err)
			e.add(f)
			return
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	median, slowest, budget := took[len(took)/2], took[len(took)-1], e.store.Budget
	f := Finding{Name: "latency", Severity: OK}
	f.Found = fmt.Sprintf("median %v, slowest %v of %d calls; the budget is %v", round(median), round(slowest), len(took), budget)
	const closer = "Bring the server closer, look for slow commands (SLOWLOG GET), or raise the budget with core.WithBudget."
	switch {
	case median > budget:
		f.Severity = Problem
		f.Meaning, f.Advice = "Most calls exceed the budget, and the error policy decides.", closer
	case slowest > budget:
		f.Severity = Notice
		f.Meaning, f.Advice = "Some calls exceed the budget, and the error policy decides.", closer
	case median > budget/2:
		f.Severity = Notice
		f.Meaning, f.Advice = "There is little room for a busy moment before calls exceed the budget.", closer
	}
	e.add(f)
}
