// Package doctor examines whether a limiter's Redis, and the client that talks to it, are well set up.
//
// It is for a look before going live, for a command line such as weir doctor, or for the
// log at start-up:
//
//	if err := doctor.Examine(ctx, limiter).Err(); err != nil {
//		slog.Warn("the rate limiter will not work as it should", "error", err)
//	}
//
// A limiter takes the place of a URL or a client, since it has the prefix of the keys and the
// budget, too: core.Open(url), or core.New(core.NewRedis(client)).
package doctor

import (
	"context"
	"fmt"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/memory"
)

// Examine examines a limiter's client and servers, and reports in plain words each fault and how to mend it. If something
// cannot be examined, that is a finding, too, so there is no error.
//
// On a store of [core.NewRedis] each server is examined: every master of a cluster, every shard of a ring,
// the master that the sentinels name. The findings are
//
//	retries      whether the client repeats calls, which may have been charged
//	deadlines    whether it ends a call when its context does
//	dialer       whether it can read an answer too late
//	encryption   whether an attacker can read along, or pretend to be Redis
//	ring         whether all shards are up
//	connection   why a server does not answer; nothing else is found out about it
//	server       Redis 6.2 or newer, or Valkey
//	role         a master, and of the kind that the client is for
//	cluster      whether every slot has a server, and the cluster's own state
//	memory       whether limits can be evicted, whether there is a bound, and whether writes are refused
//	persistence  whether a snapshot that failed stops writes; for balances, whether there is an append-only file
//	clock        the server's against this machine's
//	permissions  which commands and keys Redis refuses to the user
//	scripts      whether each algorithm decides as it should, tried on a key of its own
//	latency      how long a call takes, beside the budget
//
// and "client" for a client with options that cannot be seen, and "store" for any other store. In front of a cache of
// denials, the store behind it is examined. If the user lacks a permission to look (a limiter needs neither INFO nor
// CLUSTER INFO), that is a notice.
//
// No key of a client is charged, and no key is left behind. For a moment there are keys with a subject that starts with
// "doctor:". If the server is lost in that moment, they expire within two minutes, and that of the calendar within 70.
// Examine sends some 60 commands to each server, so it does not belong in a readiness probe: use [core.Limiter.Ping]
// there. Only ctx bounds it. The trial of an algorithm that has begun ends all the same, and a client that ignores
// deadlines may take longer, up to its own timeouts.
//
// A store of your own examines itself if it is an [Examiner], and is pinged otherwise.
//
// Examine may be called by many goroutines at once. A nil limiter panics.
func Examine(ctx context.Context, limiter *core.Limiter) Report { return examine(ctx, limiter, false) }

// ExamineBalances is [Examine] for a limiter with a [core.Balance]: clients have paid for its units. It is a problem then if a store
// does not keep its data: if a Redis writes no append-only file, or the store is the memory of this process. INFO does not tell how
// often Redis syncs that file: see appendfsync.
//
// ExamineBalances may be called by many goroutines at once. A nil limiter panics.
func ExamineBalances(ctx context.Context, limiter *core.Limiter) Report {
	return examine(ctx, limiter, true)
}

// examine is Examine, for a limiter that may have balances.
func examine(ctx context.Context, limiter *core.Limiter, balances bool) Report {
	switch store := inspect.StoreOf(limiter); {
	case store.Redis != nil:
		return examineRedis(ctx, store.Redis, balances)
	case store.Memory != nil:
		report := examineMemory(ctx, limiter, store.Memory)
		if balances {
			report = append(report, Finding{
				Name: "persistence", Severity: Problem, Found: "balances are in this process's memory",
				Meaning: "They are lost when the process ends, though clients have paid for them.", Advice: "Use Redis: core.Open(\"redis://…\").",
			})
		}
		return report
	default:
		return examineOther(ctx, limiter, store.Own)
	}
}

// Examiner is a [core.Store] of your own that can examine itself. One that wraps another store
// may call the function [Examine] with a limiter on that.
type Examiner interface {
	// Examine returns the findings of the store about itself, within ctx.
	Examine(ctx context.Context) Report
}

// undecided is the meaning of a store that does not answer.
const undecided = "No check can be decided."

func examineMemory(ctx context.Context, limiter *core.Limiter, store *memory.Store) Report {
	if err := limiter.Ping(ctx); err != nil {
		return Report{{Name: "store", Severity: Problem, Found: err.Error(), Meaning: undecided}}
	}
	return Report{{
		Name: "store", Severity: Notice,
		Found:   fmt.Sprintf("limits are in this process's memory: %d keys, at most %d", store.Len(), store.MaxKeys),
		Meaning: "Every process counts for itself, and a restart forgets.",
		Advice:  "For more than one process, use Redis: core.Open(\"redis://…\").",
	}}
}

// examineOther has a store of another kind examine itself, or only pings it.
func examineOther(ctx context.Context, limiter *core.Limiter, store any) Report {
	if own, ok := store.(Examiner); ok {
		return own.Examine(ctx)
	}
	f := Finding{Name: "store", Severity: Notice, Found: fmt.Sprintf("%T answers", store), Meaning: "It has nothing more to say about itself."}
	if err := limiter.Ping(ctx); err != nil {
		f.Severity, f.Found, f.Meaning = Problem, fmt.Sprintf("%T does not answer: %v", store, err), undecided
	}
	return Report{f}
}
