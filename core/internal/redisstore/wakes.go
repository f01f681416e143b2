package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
)

const (
	// idleWakes is how long a subscription outlives the latest waiter.
	idleWakes = 30 * time.Second
	// silentWakes is how long nothing comes until it subscribes anew, in case the connection is dead.
	silentWakes = 10 * time.Second
	// pauseOfWakes is the time between two attempts to subscribe, and longPauseOfWakes where Redis does not permit it.
	pauseOfWakes, longPauseOfWakes = 500 * time.Millisecond, 30 * time.Second
)

// Wakes wakes the waiters of a process when places are kept for them: see hand_over in waiters.lua. It subscribes to a
// channel of its own while there are waiters. Many goroutines may use it at once.
type Wakes struct {
	store   *Store
	process string
	wake    func(line uint64)
	waits   func() bool

	listening atomic.Bool
	heard     atomic.Bool // and something has come
	used      atomic.Int64

	mu      sync.Mutex
	running bool
	closed  bool
	stop    context.CancelFunc
	ended   chan struct{}
}

// NewWakes returns Wakes that call wake with the number of the line that is to ask. wake must not block. waits reports whether waiters
// stand in an order over processes: the subscription lasts as long as they do, however long they sleep between two tries.
func (r *Store) NewWakes(wake func(line uint64), waits func() bool) *Wakes {
	return &Wakes{store: r, process: strings.ToLower(rand.Text()[:12]), wake: wake, waits: waits}
}

// ID returns the id of a line of this process, as a script knows it. A waiter that is toldOnly gets no place kept for it,
// since it may need more than the place.
func (w *Wakes) ID(line uint64, toldOnly bool) string {
	id := w.process + "-" + strconv.FormatUint(line, 10)
	if toldOnly {
		id = "~" + id
	}
	return id
}

// channel returns the channel to which a process listens.
func (w *Wakes) channel(process string) string { return w.store.Prefix + ":waiting:" + process }

// Listening reports whether the subscription stands, and Heard whether anything has come through it, so that messages are
// known to arrive.
func (w *Wakes) Listening() bool { return w.listening.Load() }

// Heard is explained at Listening.
func (w *Wakes) Heard() bool { return w.listening.Load() && w.heard.Load() }

// Use notes that there is a waiter, and begins to subscribe unless that has been done. It does not wait for it.
func (w *Wakes) Use() {
	w.used.Store(time.Now().UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running || w.closed {
		return
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.running, w.ended = true, make(chan struct{})
	go w.run(ctx, w.ended)
}

// Close ends the subscription.
func (w *Wakes) Close() {
	w.mu.Lock()
	w.closed = true
	ended := w.ended
	if w.running {
		w.stop()
	}
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// run listens until there was no waiter for a while, or Close.
func (w *Wakes) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for {
		began := time.Now()
		var err error
		if ring := w.store.topology.Ring; ring != nil {
			err = w.listenToAll(ctx, ring)
		} else {
			err = w.listen(ctx, w.store.topology.Client)
		}
		w.listening.Store(false)
		if w.end(ctx, errors.Is(err, redis.ErrClosed)) {
			return
		}
		pause := pauseOfWakes
		switch {
		case err == nil && time.Since(began) > pause:
			continue
		case redis.HasErrorPrefix(err, "NOPERM"):
			pause = longPauseOfWakes
		}
		if err != nil {
			w.store.warnings.wakes.Log(w.store.Logger(), "core: waiters are not woken by redis and have to poll", slog.Any("error", err))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// end ends the goroutine if there was no waiter for a while, or if the client is closed.
func (w *Wakes) end(ctx context.Context, closed bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && !w.idle() && !closed {
		return false
	}
	w.running = false
	w.stop()
	return true
}

func (w *Wakes) idle() bool {
	return time.Now().UnixNano()-w.used.Load() > int64(idleWakes) && !w.waits()
}

// listenToAll is listen on all servers of a ring. When it ends on one it ends on all. The caller begins anew with the
// servers that there are then.
func (w *Wakes) listenToAll(ctx context.Context, ring *redis.Ring) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return ring.ForEachShard(ctx, func(ctx context.Context, shard *redis.Client) error {
		defer cancel()
		return w.listen(ctx, shard)
	})
}

// listen subscribes on a server, and wakes lines until it fails, until nothing has come for a while, or until there was
// no waiter for a while.
func (w *Wakes) listen(ctx context.Context, client redis.UniversalClient) error {
	subscription := client.Subscribe(ctx, w.channel(w.process))
	defer context.AfterFunc(ctx, func() { _ = subscription.Close() })()
	defer func() { _ = subscription.Close() }()
	for {
		received, err := subscription.ReceiveTimeout(ctx, silentWakes)
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || ctx.Err() != nil {
				return nil
			}
			return err
		}
		switch message := received.(type) {
		case *redis.Subscription:
			w.listening.Store(true)
		case *redis.Message:
			if line, err := strconv.ParseUint(message.Payload, 10, 64); err == nil {
				w.heard.Store(true)
				w.wake(line)
			}
		}
		if w.idle() {
			return nil
		}
	}
}

// LeaveLater carries out corrections of waiters that have left, in the background and within the budget.
func (r *Store) LeaveLater(list []call.Correction) {
	if r.calls.begin() != nil {
		return
	}
	go func() { // ends within the patience and the budget
		defer r.calls.end()
		r.leave(context.Background(), list)
	}()
}

// leave carries out corrections of waiters that have left. Redis forgets a waiter within a second if its correction is
// lost.
func (r *Store) leave(ctx context.Context, list []call.Correction) {
	for _, share := range sharesOf(list, true) {
		_ = r.settleServer(ctx, share)
	}
}
