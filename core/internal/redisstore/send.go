package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// sender sends the batches of a lane to its server.
type sender struct {
	*Store

	server *server
	does   script.Task
}

// send sends a batch, as one script run if one script decides all of it, and else as a pipeline of several.
func (r sender) send(ctx *batch.Context, groups []*requestGroup) error {
	s, does := r.server, r.does
	s.sending.Add(1)
	defer s.sending.Add(-1)
	one, together := runOf(does, groups)
	if !together || len(groups) > 1 && !r.packs() {
		return r.sendRuns(ctx, s, runsOf(does, groups, r.packs()))
	}
	a := r.sendPacked(ctx, s, one)
	if a.err != nil {
		if r.parts(one, a.err) {
			return r.sendRuns(ctx, s, runsOf(does, groups, false))
		}
		if elsewhere := r.elsewhere(ctx, a.err); elsewhere != nil {
			a.err = elsewhere
			_ = a.share(one)
			return nil // the node has answered, and the requests have the error
		}
		a.err = r.explain(ctx, s, a.err)
	}
	if err := a.share(one); err != nil || one.within != plain && one.within != reserving || strings.IndexByte(a.text, script.Unknown) < 0 {
		return err
	}
	r.sendUnknown(ctx, s, does, groups)
	return nil
}

// sendUnknown sends plain requests again, in their order, after their script has found states that it does not know: it has
// changed nothing of them. If that fails, each has its error.
func (r *Store) sendUnknown(ctx *batch.Context, s *server, does script.Task, groups []*requestGroup) {
	var unknown []*requestGroup
	for _, g := range groups {
		if q := g.Request; q.Plain && g.Err == nil && strings.IndexByte(g.Answer.Text, script.Unknown) >= 0 {
			q.Explain()
			unknown = append(unknown, g)
		}
	}
	if len(unknown) > 0 {
		_ = r.sendRuns(ctx, s, runsOf(does, unknown, r.packs()))
	}
}

// parts reports whether the requests of a run that has failed are to be sent each in a run of its own.
func (r *Store) parts(failed run, err error) bool {
	switch {
	case len(failed.groups) == 1 || err == nil:
		return false
	case redis.HasErrorPrefix(err, "CROSSSLOT"): // a cluster behind a proxy
		r.unpackable.Store(true)
		return true
	}
	return !failed.does.Settles() && kindOf(err) == call.OutOfMemory // nothing was charged, and a denial needs no memory
}

// packs reports whether requests about different keys may share a script run.
func (r *Store) packs() bool { return r.topology.Packs() && !r.unpackable.Load() }

// scriptCall is the words of a script call, to be used again.
type scriptCall struct{ words []any }

var scriptCalls = sync.Pool{New: func() any { return new(scriptCall) }}

func (c *scriptCall) free() {
	clear(c.words)
	c.words = c.words[:0]
	scriptCalls.Put(c)
}

// sendPacked sends a batch as one script call.
func (r *Store) sendPacked(ctx *batch.Context, s *server, one run) (a scriptReply) {
	c := scriptCalls.Get().(*scriptCall) //nolint:forcetypeassert // the pool holds nothing else
	defer c.free()
	var called *script.Script
	called, a.instant = r.appendCall(c, one)
	last, client := len(c.words)-1, r.caller(s)
	c.words[last] = ctx.Mark(c.words[last])
	c.words[0], c.words[1] = "evalsha", called.Hash
	for {
		command := redis.NewStringCmd(ctx, c.words...)
		_ = client.Process(ctx, command) // the command carries the error
		if a.text, a.err = command.Result(); !redis.HasErrorPrefix(a.err, "NOSCRIPT") || c.words[0] == "eval" {
			return a
		}
		ctx.SendAgain() // at first, and after a restart, a flush or a failover
		c.words[0], c.words[1] = "eval", called.Source
	}
}

// sendRuns sends script runs in one pipeline.
func (r *Store) sendRuns(ctx *batch.Context, s *server, runs []run) error {
	ctx.SendAgain() // they may have been sent as one before
	commands, scripts, answers := make([]*redis.StringCmd, len(runs)), make([]*script.Script, len(runs)), make([]scriptReply, len(runs))
	client := r.caller(s)
	pipeline := client.Pipeline()
	for i, one := range runs {
		var c scriptCall
		scripts[i], answers[i].instant = r.appendCall(&c, one)
		c.words[0], c.words[1] = "evalsha", scripts[i].Hash
		if last := len(c.words) - 1; i == 0 {
			c.words[last] = ctx.Mark(c.words[last])
		}
		commands[i] = redis.NewStringCmd(ctx, c.words...)
		_ = pipeline.Process(ctx, commands[i])
	}
	execute(ctx, pipeline, commands)
	unknown := client.Pipeline()
	sources := make(map[*script.Script]bool) // the scripts that are sent again with their source: once, unless a proxy may be in between
	for i, command := range commands {
		if !redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
			continue
		}
		call := command.Args()
		if !sources[scripts[i]] || r.topology.Cluster == nil {
			sources[scripts[i]] = true
			call[0], call[1] = "eval", scripts[i].Source
		}
		commands[i] = redis.NewStringCmd(ctx, call...)
		_ = unknown.Process(ctx, commands[i])
	}
	if len(runs) == 1 && unknown.Len() > 0 { // of several it would not be known whether the others were sent
		ctx.SendAgain()
	}
	execute(ctx, unknown, commands)
	return r.shareRuns(ctx, s, runs, commands, answers)
}

// shareRuns gives each run its reply. It returns an error if the server has answered none of them.
func (r *Store) shareRuns(ctx *batch.Context, s *server, runs []run, commands []*redis.StringCmd, answers []scriptReply) error {
	var failure error // of the node, if all have failed
	var parted []run
	answered := false
	for i, command := range commands {
		a := &answers[i]
		a.text, a.err = command.Result()
		if r.parts(runs[i], a.err) {
			parted = append(parted, runs[i].parted()...)
			continue
		}
		if elsewhere := r.elsewhere(ctx, a.err); elsewhere != nil {
			a.err = elsewhere
			_ = a.share(runs[i])
			answered = true
			continue
		}
		a.err = r.explain(ctx, s, a.err)
		failure = a.share(runs[i])
		answered = answered || failure == nil
	}
	if len(parted) > 0 {
		failure = r.sendRuns(ctx, s, parted)
		answered = answered || failure == nil
	}
	r.sendUnknownOf(ctx, s, runs)
	if answered {
		return nil
	}
	return failure
}

// sendUnknownOf is sendUnknown for all runs of a batch, in one round trip more. A batch has checks or settlements, and never both:
// each has a lane of its own.
func (r *Store) sendUnknownOf(ctx *batch.Context, s *server, runs []run) {
	does, plain := script.Decide, []*requestGroup(nil)
	for _, one := range runs {
		switch one.does {
		case script.OwnCheck, script.OwnReserve:
			plain = append(plain, one.groups...)
		case script.OwnSettle:
			does, plain = script.Settle, append(plain, one.groups...)
		default: // the other scripts know every state
		}
	}
	r.sendUnknown(ctx, s, does, plain)
}

// execute has a pipeline executed. If it has no connection, go-redis says so, but not to the
// commands.
func execute(ctx context.Context, pipeline redis.Pipeliner, commands []*redis.StringCmd) {
	if pipeline.Len() == 0 {
		return
	}
	_, err := pipeline.Exec(ctx)
	if _, replied := errors.AsType[redis.Error](err); err == nil || replied {
		return
	}
	for _, command := range commands {
		if command.Err() == nil && command.Val() == "" { // no script replies nothing
			command.SetErr(err)
		}
	}
}

// script returns the script of a task for an algorithm, or for all if that is script.Mixed, and notes that this store
// uses it.
func (r *Store) script(does script.Task, of exact.Algorithm) *script.Script {
	slot := &r.scripts[does][of]
	if s := slot.Load(); s != nil {
		return s
	}
	s := script.New(does, of, r.Clock != nil)
	slot.Store(s)
	return s
}

// appendCall appends the words of a script call for a run, with room for the first two, and returns whether they ask
// for the instant of the decision.
func (r *Store) appendCall(c *scriptCall, one run) (s *script.Script, instant bool) {
	if one.does == script.OwnCheck || one.does == script.OwnReserve {
		return r.appendChecks(c, one)
	}
	if one.does == script.Release {
		return r.appendReleases(c, one), false
	}
	if one.does == script.OwnSettle {
		return r.appendSettlements(c, one), false
	}
	keys, settles := 0, one.does.Settles()
	instant = !settles && !one.groups[0].Alone // the charge of a call that its caller leaves is given back
	for _, g := range one.groups {
		q := g.Request
		keys += len(q.Keys)
		instant = instant || q.Instant
	}
	c.words = append(c.words, nil, nil, keys)
	for _, g := range one.groups {
		c.words = append(c.words, g.Request.Keys...)
	}
	first := len(c.words)
	switch one.does {
	case script.Settle, script.Close:
		for _, g := range one.groups {
			c.words = append(c.words, g.Request.Arguments...)
		}
	default:
		rows := script.Rows{Words: c.words}
		for _, g := range one.groups {
			rows.Add(g.Request, g.Len)
		}
		c.words = rows.End()
	}
	if instant {
		c.words = append(c.words, "at")
	}
	if one.does == script.Reserve || one.does == script.Close {
		c.reserve(one, first)
	}
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(one.does, one.of), instant
}

// appendChecks is appendCall for plain checks.
func (r *Store) appendChecks(c *scriptCall, one run) (s *script.Script, instant bool) {
	reserves := one.does == script.OwnReserve
	instant = reserves || !one.groups[0].Alone
	c.words = append(c.words, nil, nil, nil)
	for _, g := range one.groups {
		q := g.Request
		instant = instant || q.Instant
		c.words = appendKeys(c.words, q)
	}
	c.words[2] = len(c.words) - 3
	rows := script.CheckRows{Reserves: reserves, Words: c.words}
	for _, g := range one.groups {
		rows.Add(g.Request, g.Len)
	}
	if c.words = rows.Words; instant && !reserves { // a script that reserves tells it anyway
		c.words = append(c.words, "at")
	}
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(one.does, one.of), instant
}

// appendKeys appends the keys of a plain request: its own, and those of the open reservations.
func appendKeys(words []any, q *script.Request) []any {
	words = append(words, q.Keys...)
	for i := range q.Reserving {
		words = append(words, q.Reserving[i].Key)
	}
	return words
}

// appendSettlements is appendCall for plain settlements.
func (r *Store) appendSettlements(c *scriptCall, one run) *script.Script {
	c.words = append(c.words, nil, nil, nil)
	for _, g := range one.groups {
		c.words = appendKeys(c.words, g.Request)
	}
	c.words[2] = len(c.words) - 3
	rows := script.SettleRows{Words: c.words}
	for _, g := range one.groups {
		rows.Add(g.Request)
	}
	c.words = rows.Words
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(one.does, one.of)
}

// appendReleases is appendCall for places that are given back.
func (r *Store) appendReleases(c *scriptCall, one run) *script.Script {
	c.words = append(c.words, nil, nil, nil)
	for _, g := range one.groups {
		c.words = g.Request.AppendReleases(c.words, true)
	}
	c.words[2] = len(c.words) - 3
	for _, g := range one.groups {
		c.words = g.Request.AppendReleases(c.words, false)
	}
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(script.Release, script.Mixed)
}

// reserve adds the arguments about charges that are given back at their ends.
func (c *scriptCall) reserve(one run, first int) {
	requests := make([]*script.Request, len(one.groups))
	for i, g := range one.groups {
		requests[i] = g.Request
	}
	var more int
	if one.does == script.Reserve {
		c.words, more = script.AppendReserving(c.words, first, requests)
	} else {
		c.words, more = script.AppendClosing(c.words, first, requests)
	}
	c.words[2] = c.words[2].(int) + more //nolint:forcetypeassert // appendCall has counted the keys
}
