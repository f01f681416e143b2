package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Ping reports whether Redis can answer. Each master of a cluster or shard of a ring is asked. It opens as many
// connections as calls use at once, loads the scripts, and asks a check that charges nothing: so it needs the
// permissions of calls, and SCRIPT EXISTS and SCRIPT LOAD to load the scripts ahead of the first call.
func (r *Store) Ping(ctx context.Context) error {
	if r.closed.Load() {
		return call.ErrClosed
	}
	return r.Explain(ctx, ctx, r.topology.Each(ctx, r.warm))
}

// warm loads the scripts into a server, and opens the connections that calls use.
func (r *Store) warm(ctx context.Context, server redis.UniversalClient) error {
	if err := r.load(ctx, server); err != nil {
		return err
	}
	client, ok := server.(*redis.Client)
	if !ok {
		return nil
	}
	var group sync.WaitGroup
	connections := make([]*redis.Conn, min(r.InFlight+inFlightSettlements+inFlightPlaces, client.Options().PoolSize))
	failures := make([]error, len(connections))
	for i := range connections {
		connections[i] = client.Conn() // keeps its connection until it is closed, so that each has another one
		group.Go(func() { failures[i] = touch(ctx, connections[i]) })
	}
	group.Wait()
	for i, connection := range connections {
		_ = connection.Close()
		if errors.Is(failures[i], redis.ErrPoolTimeout) || errors.Is(failures[i], redis.ErrPoolExhausted) {
			failures[i] = nil // the client's other users have them, and they are open
		}
	}
	return errors.Join(failures...)
}

// load has a server keep the scripts that decide and all others that this store has been asked to run, and has it answer
// a check that charges nothing. Only the scripts that the server lacks travel.
//
// A user who may not run SCRIPT loses little: each script is sent when it is first needed.
func (r *Store) load(ctx context.Context, server redis.UniversalClient) error {
	known := r.known()
	lacking := r.lacking(ctx, server, known)
	pipeline := server.Pipeline()
	loaded := make([]*redis.StringCmd, 0, len(lacking))
	for _, s := range lacking {
		loaded = append(loaded, pipeline.ScriptLoad(ctx, s.Source))
	}
	probe := r.probe()
	answer := redis.NewStringCmd(ctx, append([]any{"evalsha", probe.script.Hash}, probe.words...)...)
	_ = pipeline.Process(ctx, answer)
	if commands, err := pipeline.Exec(ctx); err != nil && (!isReply(err) || !slices.ContainsFunc(commands, hasFailed)) {
		return err // the server has refused the connection, and was sent no command
	}
	for _, reply := range loaded {
		if err := reply.Err(); err != nil && kindOf(err) != call.NotPermitted {
			return err
		}
	}
	err := answer.Err()
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // the user may not run SCRIPT
		answer = redis.NewStringCmd(ctx, append([]any{"eval", probe.script.Source}, probe.words...)...)
		_ = server.Process(ctx, answer) // the command carries the error
		err = answer.Err()
	}
	if redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") { // this node of a cluster has other keys
		return nil
	}
	return err
}

// hasFailed reports whether a command has an error.
func hasFailed(command redis.Cmder) bool { return command.Err() != nil }

// known returns the scripts that decide, and all others that this store has been asked to run.
func (r *Store) known() []*script.Script {
	r.script(script.Decide, script.Mixed)
	for a := range exact.All() {
		if script.HasOwnCheck(a) {
			r.script(script.OwnCheck, a)
		}
	}
	var known []*script.Script
	for does := range r.scripts {
		for of := range r.scripts[does] {
			if s := r.scripts[does][of].Load(); s != nil {
				known = append(known, s)
			}
		}
	}
	return known
}

// lacking returns those of some scripts that a server does not keep, or all of them if it does not say.
func (r *Store) lacking(ctx context.Context, server redis.UniversalClient, known []*script.Script) []*script.Script {
	hashes := make([]string, len(known))
	for i, s := range known {
		hashes[i] = s.Hash
	}
	kept, err := server.ScriptExists(ctx, hashes...).Result()
	if err != nil || len(kept) != len(known) {
		return known
	}
	var lacking []*script.Script
	for i, s := range known {
		if !kept[i] {
			lacking = append(lacking, s)
		}
	}
	return lacking
}

// probe is a script call that charges nothing and leaves no key.
type probe struct {
	script *script.Script
	words  []any // behind the script
}

func (r *Store) probe() probe {
	p := probe{r.script(script.Decide, script.Mixed), []any{1, r.Prefix + ":{ping}:leaky:1:1/s", "ask leaky 1 1 1", 0}}
	if r.Clock != nil {
		p.words = append(p.words, r.Clock())
	}
	return p
}

// isReply reports whether an error is one that Redis has replied.
func isReply(err error) bool {
	_, replied := errors.AsType[redis.Error](err)
	return replied
}
