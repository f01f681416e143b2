package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Severity says how much a [Finding] matters.
type Severity string

const (
	// SeverityOK is as it should be.
	SeverityOK Severity = "ok"
	// SeverityNotice is something to know: a limiter works, but not as well or as
	// safely as it could, or a check could not be made.
	SeverityNotice Severity = "notice"
	// SeverityProblem is something to repair: requests are, or will be, decided
	// wrongly or not at all.
	SeverityProblem Severity = "problem"
)

// Finding is what one check of a [Diagnosis] has found. It holds addresses, but no
// password, no user name and no caller's key, unless an error message of the server
// or the network has one.
type Finding struct {
	// Name is what was checked; see [Limiter.Diagnose] for the names.
	Name string
	// Server is the address of the server that it is about. It is empty where it is
	// about this process.
	Server   string
	Severity Severity
	// Found is the fact, such as "maxmemory-policy is allkeys-lru".
	Found string
	// Meaning is what that means for the limits, in whole sentences. It may be empty
	// where all is well.
	Meaning string
	// Advice is what to do about it, in whole sentences. It is empty where there is
	// nothing to do.
	Advice string
}

// String returns the finding as one line.
func (f Finding) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", f.Severity, f.Name)
	if f.Server != "" {
		fmt.Fprintf(&text, " (%s)", f.Server)
	}
	fmt.Fprintf(&text, ": %s", f.Found)
	for _, more := range [...]string{f.Meaning, f.Advice} {
		if more != "" {
			fmt.Fprintf(&text, ". %s", strings.TrimSuffix(more, "."))
		}
	}
	return text.String()
}

// Diagnosis is what [Limiter.Diagnose] has found: first about this process and its
// client, then server by server.
type Diagnosis []Finding

// Err returns an error that names every problem, or nil if there is none. Notices are
// no errors.
func (d Diagnosis) Err() error {
	var problems []error
	for _, f := range d {
		if f.Severity == SeverityProblem {
			problems = append(problems, fmt.Errorf("core: %s", strings.TrimPrefix(f.String(), string(SeverityProblem)+": ")))
		}
	}
	return errors.Join(problems...)
}

// String returns the diagnosis as a table for people, with a heading for each server.
func (d Diagnosis) String() string {
	const indent = "                        " // of the line below what was found
	var text strings.Builder
	for i, f := range d {
		if i == 0 || f.Server != d[i-1].Server {
			heading := "this process"
			if f.Server != "" {
				heading = f.Server
			}
			fmt.Fprintln(&text, heading)
		}
		fmt.Fprintf(&text, "  %-8s  %-11s  %s\n", f.Severity, f.Name, f.Found)
		if f.Meaning != "" {
			fmt.Fprintf(&text, "%s %s\n", indent, f.Meaning)
		}
		if f.Advice != "" {
			fmt.Fprintf(&text, "%s -> %s\n", indent, f.Advice)
		}
	}
	return text.String()
}

// Diagnose examines what the limits depend on, and says in plain words what is wrong
// and what to do about it. It is for a look before going live, for a command line such
// as examples/doctor, or for the log at start-up:
//
//	if err := limiter.Diagnose(ctx).Err(); err != nil {
//		slog.Warn("the rate limiter will not work as it should", "error", err)
//	}
//
// On [Redis] each server is examined: every master of a cluster, every shard of a
// ring, the master that the sentinels name. The findings are
//
//	retries      whether the client repeats questions, which may have been charged
//	deadlines    whether it ends a call when its context does
//	encryption   whether others can read along, or pretend to be Redis
//	ring         whether all shards are up
//	connection   why a server does not answer; nothing else is found out about it
//	server       Redis 6.2 or newer, or Valkey
//	role         a master, and of the kind that the client is for
//	cluster      whether every slot has a server, and what the cluster thinks of itself
//	memory       whether limits can be evicted, whether there is a bound, and whether writes are refused
//	persistence  whether a snapshot that failed stops writes
//	clock        the server's against this machine's
//	permissions  which commands and keys the user is refused
//	scripts      whether each algorithm decides as it should, tried on a key of its own
//	latency      how long a question takes, beside the budget
//
// and "client" for a client whose options cannot be seen, and "store" for any other
// store. A check that the user may not make (INFO and
// CLUSTER INFO are not among what a limiter needs) is a notice that says so.
//
// Nothing is charged to anybody, and no key is left behind; some are used for a moment
// whose subject starts with "doctor:". (If the server is lost in that moment they vanish
// by themselves within two minutes.) Diagnose makes some 60 calls to each server, so it
// is nothing for a readiness probe: that is what Ping is for. Only ctx bounds it, but it
// ends an algorithm's trial that it has begun; and a client that ignores deadlines may be
// later by as much as its own timeouts.
//
// A store of your own is asked to do it itself if it has a method
// Diagnose(context.Context) Diagnosis, and pinged otherwise.
func (l *Limiter) Diagnose(ctx context.Context) Diagnosis { return diagnose(ctx, l.store) }

func diagnose(ctx context.Context, store Store) Diagnosis {
	if store, ok := store.(interface {
		Diagnose(ctx context.Context) Diagnosis
	}); ok {
		return store.Diagnose(ctx)
	}
	f := Finding{Name: "store", Severity: SeverityNotice, Found: fmt.Sprintf("%T answers", store), Meaning: "It has nothing more to say about itself."}
	if err := store.Ping(ctx); err != nil {
		f.Severity, f.Found, f.Meaning = SeverityProblem, fmt.Sprintf("%T does not answer: %v", store, err), "No question can be decided."
	}
	return Diagnosis{f}
}

// Diagnose is what [Limiter.Diagnose] does.
func (m *Memory) Diagnose(ctx context.Context) Diagnosis {
	if err := m.ready(ctx); err != nil {
		return Diagnosis{{Name: "store", Severity: SeverityProblem, Found: err.Error(), Meaning: "No question can be decided."}}
	}
	keys := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		keys += len(s.entries)
		s.mu.Unlock()
	}
	return Diagnosis{{
		Name: "store", Severity: SeverityNotice,
		Found:   fmt.Sprintf("limits are in this process's memory: %d keys, at most %d", keys, m.maxKeys),
		Meaning: "Every process counts for itself, and a restart forgets.",
		Advice:  "For more than one process, use Redis: core.Open(\"redis://…\").",
	}}
}

// Diagnose is what [Limiter.Diagnose] does, of the store whose refusals are cached.
func (c *DenialCache) Diagnose(ctx context.Context) Diagnosis { return diagnose(ctx, c.store) }
