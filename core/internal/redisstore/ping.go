package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/failure"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Ping reports whether Redis can answer. Each master of a cluster or shard of a ring is asked. It opens as many
// connections as calls use at once, and loads the scripts. It runs scripts rather than PING, so
// that it needs no other permissions than calls do.
func (r *Store) Ping(ctx context.Context) error {
	if r.closed.Load() {
		return failure.ErrClosed
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

// load makes a server load the scripts of the single algorithms and of every mix that this store
// has been asked about. Without keys a script decides nothing.
func (r *Store) load(ctx context.Context, client redis.Cmdable) error {
	for a := range exact.All() {
		r.script(script.Decide, script.SetOf(a))
	}
	pipeline := client.Pipeline()
	var known []*script.Script
	var replies []*redis.Cmd
	for does := range r.scripts {
		for of := range r.scripts[does] {
			if s := r.scripts[does][of].Load(); s != nil {
				known, replies = append(known, s), append(replies, pipeline.EvalSha(ctx, s.Hash, nil))
			}
		}
	}
	if _, err := pipeline.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	for i, reply := range replies {
		err := reply.Err()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			err = client.Eval(ctx, known[i].Source, nil).Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
