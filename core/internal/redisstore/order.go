package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// farthest bounds how far ahead the next try of a waiter may be that Redis knows.
const farthest = 10 * time.Minute

// Rank is the place of a queue's or line's first waiter among those of all processes for the same key and class. See
// order.lua. It belongs to one goroutine at a time.
type Rank struct {
	store   *Store
	key     string
	id      string
	channel string

	name  string    // of the waiter in Redis; empty: it has none
	came  time.Time // of that waiter
	since int64
}

// Other is the first waiter of another queue or line, mostly of another process.
type Other struct {
	// Came is when it came, by the clock of this process.
	Came time.Time
	// Cost is its cost, in units.
	Cost int
}

// Rank returns the rank of a queue of this process. Waiters of one key and class under a spec are in one order.
func (w *Wakes) Rank(line uint64, key string, spec *exact.Spec, class string) *Rank {
	return &Rank{
		store: w.store, id: w.ID(line, false), channel: w.channel(""),
		key: w.store.Name(key, spec) + "=" + class + call.WaitingSuffix,
	}
}

// Stand publishes the first waiter of its queue: its cost, when it came and when it asks next. It returns the first
// waiters of the others. The older ones for which there is room, in units, ask at once.
func (r *Rank) Stand(cost int, came, next time.Time, room int) ([]Other, error) {
	name := r.id + " " + strconv.Itoa(cost)
	if !came.Equal(r.came) {
		r.since = 0
	}
	until := min(max(0, time.Until(next)), farthest)
	text, err := r.run(name, r.name, time.Since(came).Microseconds(), r.since, until.Microseconds(), room, r.channel)
	if err != nil {
		return nil, err
	}
	r.name, r.came = name, came
	return r.read(text)
}

// read reads a reply of order.lua.
func (r *Rank) read(text string) (others []Other, err error) {
	numbers := strings.Fields(text)
	if len(numbers)%2 == 0 {
		return nil, fmt.Errorf("core: redis has told %q of who waits", text)
	}
	values := make([]int64, len(numbers))
	for i, number := range numbers {
		if values[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return nil, fmt.Errorf("core: redis has told %q of who waits: %w", text, err)
		}
	}
	r.since = values[0]
	for i := 1; i < len(values); i += 2 {
		others = append(others, Other{Came: r.came.Add(-time.Duration(values[i]) * time.Microsecond), Cost: int(values[i+1])})
	}
	return others, nil
}

// Leave tells the other processes that the queue has no waiter any more.
func (r *Rank) Leave() {
	if r.name != "" {
		_, _ = r.run("", r.name, 0, 0, 0, 0, "") // it is forgotten soon in any case
		r.name = ""
	}
}

// LeaveLater is Leave in the background, under a lock. [Store.Close] waits for it.
func (r *Rank) LeaveLater(lock sync.Locker) {
	r.store.calls.follow()
	go func() { // ends with the owner of the lock, and within the budget
		defer r.store.calls.end()
		lock.Lock()
		defer lock.Unlock()
		r.Leave()
	}()
}

// run runs order.lua within the store's budget.
func (r *Rank) run(words ...any) (text string, err error) {
	if err := r.store.calls.begin(); err != nil {
		return "", err
	}
	defer r.store.calls.end()
	if r.store.Clock != nil {
		words = append(words, r.store.Clock())
	}
	s := r.store.script(script.Order, script.Mixed)
	told := make(chan string, 1) // the call may outlast the budget
	err = r.store.Bound(context.Background(), func(ctx context.Context) error {
		text, err := r.store.topology.Client.EvalSha(ctx, s.Hash, []string{r.key}, words...).Text()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			text, err = r.store.topology.Client.Eval(ctx, s.Source, []string{r.key}, words...).Text()
		}
		if err == nil {
			told <- text
		}
		return err
	})
	if err != nil {
		return "", err
	}
	select {
	case text = <-told:
		return text, nil
	default:
		return "", errors.New("core: redis has told nothing of who waits")
	}
}
