package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/failure"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// sendChecks has a server decide a batch of checks.
func (r *Store) sendChecks(ctx *batch.Context, s *server, groups []*requestGroup) error {
	s.sending.Add(1)
	defer s.sending.Add(-1)
	return r.send(ctx, s, script.Decide, groups)
}

// sendSettlements has a server carry out a batch of corrections.
func (r *Store) sendSettlements(ctx *batch.Context, s *server, groups []*requestGroup) error {
	s.sending.Add(1)
	defer s.sending.Add(-1)
	return r.send(ctx, s, script.Settle, groups)
}

// send sends a batch, as one script run if possible.
func (r *Store) send(ctx *batch.Context, s *server, does script.Task, groups []*requestGroup) error {
	if len(groups) > 1 && !r.packs() {
		return r.sendPipelined(ctx, s, does, groups)
	}
	a := r.sendPacked(ctx, s, does, groups)
	switch {
	case len(groups) == 1:
	case redis.HasErrorPrefix(a.err, "CROSSSLOT"): // a cluster behind a proxy
		r.unpackable.Store(true)
		return r.sendPipelined(ctx, s, does, groups)
	case does == script.Decide && a.err != nil && kindOf(a.err) == failure.OutOfMemory: // nothing was charged, and a denial needs no memory
		return r.sendPipelined(ctx, s, does, groups)
	}
	a.err = r.explain(ctx, s, a.err)
	return a.share(does, groups)
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
func (r *Store) sendPacked(ctx *batch.Context, s *server, does script.Task, groups []*requestGroup) (a scriptReply) {
	c := scriptCalls.Get().(*scriptCall) //nolint:forcetypeassert // the pool holds nothing else
	defer c.free()
	var called *script.Script
	called, a.instant = r.appendCall(c, does, groups)
	mark(ctx, c.words)
	c.words[0], c.words[1] = "evalsha", called.Hash
	a.text, a.err = r.process(ctx, s, c.words)
	if redis.HasErrorPrefix(a.err, "NOSCRIPT") { // at first, and after a restart, a flush or a failover
		ctx.SendAgain()
		c.words[0], c.words[1] = "eval", called.Source
		a.text, a.err = r.process(ctx, s, c.words)
	}
	return a
}

// mark has the context notice when a script call is sent.
func mark(ctx *batch.Context, call []any) {
	last := len(call) - 1
	call[last] = ctx.Mark(call[last])
}

func (r *Store) process(ctx *batch.Context, s *server, call []any) (string, error) {
	command := redis.NewStringCmd(ctx, call...)
	_ = r.caller(s).Process(ctx, command) // the command carries the error
	if r.redirected(ctx, command.Err()) {
		ctx.SendAgain()
		command = redis.NewStringCmd(ctx, call...)
		_ = r.topology.Client.Process(ctx, command)
	}
	return command.Result()
}

// sendPipelined sends a batch as a script call for each request in one pipeline: in a cluster,
// where keys cannot share a call.
func (r *Store) sendPipelined(ctx *batch.Context, s *server, does script.Task, groups []*requestGroup) error {
	ctx.SendAgain() // it may have been sent packed before
	commands, scripts, answers := make([]*redis.StringCmd, len(groups)), make([]*script.Script, len(groups)), make([]scriptReply, len(groups))
	client := r.caller(s)
	pipeline := client.Pipeline()
	for i := range groups {
		var c scriptCall
		scripts[i], answers[i].instant = r.appendCall(&c, does, groups[i:i+1])
		c.words[0], c.words[1] = "evalsha", scripts[i].Hash
		if i == 0 {
			mark(ctx, c.words)
		}
		commands[i] = redis.NewStringCmd(ctx, c.words...)
		_ = pipeline.Process(ctx, commands[i])
	}
	execute(ctx, pipeline, commands)
	unknown, moved := client.Pipeline(), r.topology.Client.Pipeline()
	for i, command := range commands {
		again := unknown
		switch {
		case r.redirected(ctx, command.Err()):
			again = moved
		case !redis.HasErrorPrefix(command.Err(), "NOSCRIPT"):
			continue
		}
		call := command.Args()
		call[0], call[1] = "eval", scripts[i].Source
		commands[i] = redis.NewStringCmd(ctx, call...)
		_ = again.Process(ctx, commands[i])
	}
	execute(ctx, unknown, commands)
	execute(ctx, moved, commands)
	var failure error // of the node, if all have failed
	answered := false
	for i, command := range commands {
		a := &answers[i]
		a.text, a.err = command.Result()
		a.err = r.explain(ctx, s, a.err)
		failure = a.share(does, groups[i:i+1])
		answered = answered || failure == nil
	}
	if answered {
		return nil
	}
	return failure
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

// appendCall appends the words of a script call for a batch, with room for the first two, and
// returns whether they ask for the instant of the decision.
func (r *Store) appendCall(c *scriptCall, does script.Task, groups []*requestGroup) (s *script.Script, instant bool) {
	if does == script.Settle && !slices.ContainsFunc(groups, func(g *requestGroup) bool { return !g.Request().Releases }) {
		return r.appendReleases(c, groups), false
	}
	keys, of := 0, script.Set(0)
	instant = does == script.Decide && !groups[0].Alone() // of a call whose caller leaves, what was charged is given back
	for _, g := range groups {
		q := g.Request()
		keys += len(q.Keys)
		of |= q.Of
		instant = instant || q.Instant
	}
	c.words = append(c.words, nil, nil, keys)
	for _, g := range groups {
		c.words = append(c.words, g.Request().Keys...)
	}
	first := len(c.words)
	if does == script.Decide {
		rows := script.Rows{Words: c.words}
		for _, g := range groups {
			rows.Add(g.Request(), g.Len())
		}
		c.words = rows.End()
	} else {
		for _, g := range groups {
			c.words = append(c.words, g.Request().Arguments...)
		}
	}
	if instant {
		c.words = append(c.words, "at")
	}
	does = c.reserve(does, first, groups)
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(does, of), instant
}

// appendReleases is appendCall for a batch of places that are given back.
func (r *Store) appendReleases(c *scriptCall, groups []*requestGroup) *script.Script {
	c.words = append(c.words, nil, nil, nil)
	for _, g := range groups {
		c.words = g.Request().AppendReleases(c.words, true)
	}
	c.words[2] = len(c.words) - 3
	for _, g := range groups {
		c.words = g.Request().AppendReleases(c.words, false)
	}
	if r.Clock != nil {
		c.words = append(c.words, r.Clock())
	}
	return r.script(script.Release, groups[0].Request().Of)
}

// reserve adds what a script is told of charges that are given back at their ends, and returns its task, which is another
// one if there are any.
func (c *scriptCall) reserve(does script.Task, first int, groups []*requestGroup) script.Task {
	if !slices.ContainsFunc(groups, func(g *requestGroup) bool { return len(g.Request().Reserving) > 0 }) {
		return does
	}
	requests := make([]*script.Request, len(groups))
	for i, g := range groups {
		requests[i] = g.Request()
	}
	var more int
	if does == script.Decide {
		does = script.Reserve
		c.words, more = script.AppendReserving(c.words, first, requests)
	} else {
		does = script.Close
		c.words, more = script.AppendClosing(c.words, first, requests)
	}
	c.words[2] = c.words[2].(int) + more //nolint:forcetypeassert // appendCall has counted the keys
	return does
}

// redirected reports whether a node has refused a script run because the key is, or is about to be,
// on another node, or because the node is gone. Then nothing was charged, and the cluster's client
// finds the way. After any other failure the client fetches the map of the slots anew.
func (r *Store) redirected(ctx context.Context, err error) bool {
	cluster := r.topology.Cluster
	if cluster == nil || err == nil || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return false
	}
	cluster.ReloadState(ctx)
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN") ||
		errors.Is(err, redis.ErrClosed) && !r.closed.Load()
}
