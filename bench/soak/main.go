// Command soak keeps a Redis server busy for a time with all that the library does, beside keys in which much lies, and tells of the
// commands that have held the server for longer than a millisecond. It fails if runs of scripts are among them:
//
//	go run ./soak -for 10m
//
// A machine that is busy with something else makes commands longer. So the server comes before other processes where the system
// permits that, nothing is told of the time before the soak, and what is told of commands that are no scripts says how often
// the machine alone has made one long. The first run of a script, in which Redis compiles it, is told apart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// contents says how many keys and places are in Redis from the start.
type contents struct {
	ended   int // reservations of one key that have ended, unsettled
	holders int // of one key, with leases that end meanwhile
	banned  int // keys
}

const (
	tooLong = time.Millisecond
	callers = 48
	keys    = 5_000
)

func main() {
	duration := flag.Duration("for", 10*time.Minute, "how long to soak")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	long, err := soak(ctx, contents{10_000, 10_000, 100_000}, *duration)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case long > 0:
		os.Exit(1)
	}
}

// soak soaks a server, and returns how many script runs have held it for too long.
func soak(ctx context.Context, lies contents, duration time.Duration) (long int, err error) {
	server, end, err := redistest.Launch() //nolint:contextcheck // it is ended below, however this ends
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { err = errors.Join(err, client.Close()) }()
	for name, value := range map[string]string{"slowlog-log-slower-than": strconv.FormatInt(tooLong.Microseconds(), 10), "slowlog-max-len": "10000"} {
		if err := client.ConfigSet(ctx, name, value).Err(); err != nil {
			return 0, fmt.Errorf("soak: %w", err)
		}
	}
	watched, err := serverOf(ctx, client)
	if err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(os.Stderr, "redis-server %s, before other processes: %t\n", server.Addr(), watched.hurry())
	l, err := open(server.Addr())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := lies.fill(ctx, server.Addr(), l); err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(os.Stderr, "%d reservations have ended, %d places are held, %d keys are banned\n", lies.ended, lies.holders, lies.banned)
	if err := errors.Join(client.Do(ctx, "SLOWLOG", "RESET").Err(), client.ConfigResetStat(ctx).Err()); err != nil {
		return 0, fmt.Errorf("soak: %w", err)
	}
	begun, stop := context.WithTimeout(ctx, duration)
	defer stop()
	var made atomic.Int64
	var group sync.WaitGroup
	failures := make([]error, callers)
	for i := range callers {
		group.Go(func() { failures[i] = call(begun, l, &made) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return 0, err
	}
	if long, err = watched.report(ctx, os.Stderr); err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(os.Stderr, "%d calls in %v, %d script runs of more than %v\n", made.Load(), duration, long, tooLong)
	return long, nil
}

var (
	reserved = core.Leaky(20_000, core.PerHour(1)).Named("reserved")
	places   = core.Concurrent(20_000, 30*time.Second).Named("places")
	ban      = core.Ban{Strikes: core.SlidingLog(1, time.Hour), First: time.Hour}.Named("banned")
	few      = core.Concurrent(20, 2*time.Second).Named("few")
	striking = core.Ban{Strikes: core.SlidingLog(5, time.Minute), First: time.Second}.Named("striking")
	rates    = []core.Quota{
		core.Leaky(100, core.PerSecond(20)), core.TokenBucket(100, core.PerSecond(20)), core.GCRA(100, core.PerSecond(20)),
		core.FixedWindow(100, 5*time.Second), core.SlidingWindow(100, 5*time.Second), core.SlidingLog(100, 5*time.Second),
		core.Shaping(100, core.PerSecond(1000)), core.Calendar(100_000, core.Daily("UTC")),
	}
)

// open returns a limiter on a server. Its client speaks RESP2: with RESP3 go-redis 9.23 writes to its options in each connection that
// it opens to such a server, and two of them at the same time are a data race.
func open(address string) (*core.Limiter, error) {
	return core.Open("redis://"+address+"?protocol=2", core.WithBudget(time.Minute))
}

// fill puts the contents into Redis. Another process holds the places, and dies.
func (lies contents) fill(ctx context.Context, address string, l *core.Limiter) (err error) {
	dies, err := open(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dies.Close()) }()
	const goroutines = 200
	var group sync.WaitGroup
	failures := make([]error, goroutines)
	for first := range goroutines {
		group.Go(func() {
			for i := first; i < lies.banned && failures[first] == nil; i += goroutines {
				if i < lies.ended {
					_, failures[first] = l.Reserve(ctx, core.Check{Key: "much", Limit: reserved, ReserveFor: time.Second})
				}
				if i < lies.holders && failures[first] == nil {
					_, failures[first] = dies.Reserve(ctx, core.Check{Key: "much", Limit: places})
				}
				if failures[first] == nil {
					_, failures[first] = l.Strike(ctx, fmt.Sprint("banned:", i), ban, 1)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// call makes calls of all kinds until the context ends.
func call(ctx context.Context, l *core.Limiter, made *atomic.Int64) error {
	kinds := []func(key string) error{
		func(key string) error {
			_, err := l.Allow(ctx, key, rates[rand.IntN(len(rates))])
			return err
		},
		func(key string) error {
			checks := make([]core.Check, 2+rand.IntN(5))
			for i, at := range rand.Perm(len(rates))[:len(checks)] {
				checks[i] = core.Check{Key: key, Limit: rates[at], Cost: 1 + rand.IntN(3)}
			}
			_, err := l.AllowAll(ctx, checks...)
			return err
		},
		func(key string) error {
			r, err := l.Reserve(ctx, core.Check{Key: key, Limit: rates[rand.IntN(6)], Cost: 5, ReserveFor: time.Duration(1+rand.IntN(100)) * time.Millisecond})
			if err != nil || !r.Allowed() || rand.IntN(3) == 0 {
				return err // it ends by itself
			}
			return r.Settle(ctx, rand.IntN(10))
		},
		func(string) error {
			_, err := l.Reserve(ctx, core.Check{Key: "much", Limit: reserved, ReserveFor: time.Millisecond})
			return err
		},
		func(string) error {
			r, err := l.Reserve(ctx, core.Check{Key: "much", Limit: places})
			if err != nil || !r.Allowed() {
				return err
			}
			return r.Cancel(ctx)
		},
		func(string) error {
			permit, err := l.Acquire(ctx, "few", few, core.WithLongestWait(time.Second))
			if limited := new(core.LimitedError); errors.As(err, &limited) {
				return nil
			} else if err != nil {
				return err
			}
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			permit.Release() //nolint:contextcheck // a place is given back whoever has left
			return nil
		},
		func(string) error {
			err := l.Wait(ctx, "waited", rates[0], core.WithLongestWait(200*time.Millisecond))
			if limited := new(core.LimitedError); errors.As(err, &limited) {
				return nil
			}
			return err
		},
		func(key string) error {
			_, err := l.Strike(ctx, key, striking, 1)
			return err
		},
		func(key string) error {
			_, err := l.AllowAll(ctx, core.Check{Key: key, Limit: striking.Limit(), Mode: core.OnDenial}, core.Check{Key: key, Limit: rates[1]})
			return err
		},
		func(string) error {
			if rand.IntN(100) > 0 {
				return nil
			}
			_, _, err := admin.Bans(ctx, l, ban, "", "")
			return err
		},
		func(string) error {
			if rand.IntN(1000) > 0 {
				return nil
			}
			_, err := admin.Holders(ctx, l, "much", places)
			return err
		},
		func(key string) error { return l.Reset(ctx, key, rates[rand.IntN(len(rates))]) },
	}
	for ctx.Err() == nil {
		if err := kinds[rand.IntN(len(kinds))](fmt.Sprint("key:", rand.IntN(keys))); err != nil && ctx.Err() == nil {
			return fmt.Errorf("soak: %w", err)
		}
		made.Add(1)
	}
	return nil
}
