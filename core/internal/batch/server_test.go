package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

const (
	testBudget   = 100 * time.Millisecond
	testPatience = time.Second
	testFull     = 16
)

// request is what the tests ask.
type request struct {
	name   string // the same for equal requests; "" for one that is never grouped
	weight int
}

// seenBatch is one batch as a server has seen it: the names and lengths of its groups.
type seenBatch []string

// server is a fake server that tests control, and a lane to it.
type server struct {
	*Lane[request, int]

	mu        sync.Mutex
	batches   []seenBatch
	inFlight  int
	most      int           // in flight at once
	wait      chan struct{} // holds batches up while it is open
	failures  map[int]error // of batches, by their place
	delay     time.Duration // of each reply
	own       time.Duration // for which the server does nothing but carry out a batch
	busy      time.Time     // until when it does
	connects  int
	opening   time.Duration // how long it takes to open a connection
	step      time.Duration // after each of which the server is heard of, on the way to a connection; 0: never
	lastHeard time.Time
	refusing  error // of a connection that is opened
	connected int   // connections that are open and unused; -1: as many as are wanted
}

var (
	errDown  = errors.New("down")
	errFault = errors.New("the caller's fault")
)

// tester is what a server needs of a test.
type tester interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Fatal(args ...any)
}

func newServer(t tester, heeds bool, change ...func(*Config[request, int])) *server {
	t.Helper()
	s := &server{failures: map[int]error{}, connected: -1}
	config := Config[request, int]{
		Send: s.send,
		Fail: func(ctx *Context, err error) error {
			if ctx == nil || !ctx.Sent() {
				return fmt.Errorf("not sent: %w", err)
			}
			return fmt.Errorf("sent: %w", err)
		},
		Outcome: func(err error) Outcome {
			if errors.Is(err, errDown) || errors.Is(err, ErrTimedOut) || errors.Is(err, ErrUnconnected) || errors.Is(err, context.DeadlineExceeded) {
				return Failed
			}
			return Unknown
		},
		Weight: func(q *request, _ int) int { return q.weight },
		Hash: func(q *request) (hash uint64) {
			for _, c := range q.name {
				hash = hash*31 + uint64(c)
			}
			return hash
		},
		Same:   func(a, b *request) bool { return a.name == b.name },
		Budget: testBudget, Patience: testPatience, InFlight: 2, Full: testFull, MostWaiting: 1000, Heeds: heeds,
		Ready: s.ready, Connect: s.connect, ConnectTimeout: time.Minute, Heard: s.heardAt,
	}
	for _, c := range change {
		c(&config)
	}
	s.Lane = New(config)
	t.Cleanup(s.Close)
	if err := s.ask(t.Context(), request{weight: 1}); err != nil { // so that the lane is healthy
		t.Fatal(err)
	}
	synctest.Wait()
	s.batches, s.most = nil, 0
	return s
}

// send answers a batch, as a client would: it takes a connection, sends, and waits for the reply.
func (s *server) send(ctx *Context, batch []*Group[request, int]) error {
	s.mu.Lock()
	place := len(s.batches)
	var names seenBatch
	for _, g := range batch {
		names = append(names, fmt.Sprintf("%s:%d", g.Request.name, g.Len))
	}
	s.batches = append(s.batches, names)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	wait, err, delay, opening, step := s.wait, s.failures[place], s.delay, time.Duration(0), s.step
	switch {
	case s.connected == 0: // the pool has none, so it opens one
		opening = s.opening
	case s.connected > 0:
		s.connected--
	}
	counted := s.connected >= 0
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
		if counted && err == nil {
			s.connected++
		}
	}()
	if ended := s.shake(ctx, opening, step); ended != nil {
		err = ended
	} else {
		_, ended := ctx.Mark(int64(1)).MarshalBinary()
		if ended == nil {
			ended = s.pass(ctx, wait, s.queues()+delay)
		}
		if ended != nil {
			err = ended
		}
	}
	for i, g := range batch {
		g.Answer, g.Err = place*100+i, err
	}
	return err
}

// queues returns how long it takes until the server has carried out a batch that comes now.
func (s *server) queues() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.busy.Before(now) {
		s.busy = now
	}
	s.busy = s.busy.Add(s.own)
	return s.busy.Sub(now)
}

// pass lets time pass, until a channel is closed if there is one.
func (s *server) pass(ctx *Context, wait chan struct{}, d time.Duration) error {
	var until <-chan time.Time
	if s.Heeds {
		deadline, _ := ctx.Deadline()
		until = time.After(time.Until(deadline))
	}
	for _, passed := range []func() <-chan struct{}{
		func() <-chan struct{} { return wait },
		func() <-chan struct{} {
			done := make(chan struct{})
			time.AfterFunc(d, func() { close(done) })
			return done
		},
	} {
		done := passed()
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-until:
			return context.DeadlineExceeded
		}
	}
	return nil
}

func (s *server) ready(others int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected < 0 || s.connected > others
}

// shake takes the time that it takes to open a connection, in steps if there are any.
func (s *server) shake(ctx context.Context, opening, step time.Duration) error {
	if step == 0 {
		step = max(1, opening)
	}
	for passed := time.Duration(0); passed < opening; passed += step {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		if step > left && s.Heeds {
			time.Sleep(left)
			return context.DeadlineExceeded
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			if s.Heeds {
				return ctx.Err()
			}
		}
		s.mu.Lock()
		if s.step > 0 {
			s.lastHeard = time.Now()
		}
		s.mu.Unlock()
	}
	return nil
}

func (s *server) heardAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastHeard
}

func (s *server) connect(ctx context.Context) error {
	s.mu.Lock()
	s.connects++
	opening, step, err := s.opening, s.step, s.refusing
	s.mu.Unlock()
	if ended := s.shake(ctx, opening, step); ended != nil {
		return ended
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected++
	return nil
}

// ask makes one call, and returns the error of Do or of the call.
func (s *server) ask(ctx context.Context, q request) error {
	c := s.NewCall()
	c.Request = q
	err := s.Do(ctx, c)
	if errors.Is(err, ErrLeft) {
		return err // and leaves the call behind
	}
	if err == nil {
		err = c.Err
	}
	s.Free(c)
	return err
}

// askMany makes calls at once, in order, and returns a function that collects their errors.
func (s *server) askMany(ctx context.Context, requests ...request) (errs func() []error) {
	answers := make([]error, len(requests))
	var group sync.WaitGroup
	for i, q := range requests {
		group.Go(func() { answers[i] = s.ask(ctx, q) })
		synctest.Wait()
	}
	return func() []error {
		group.Wait()
		return slices.DeleteFunc(answers, func(err error) bool { return err == nil })
	}
}

// times returns n requests that are never grouped.
func times(n int) []request { return slices.Repeat([]request{{weight: 1}}, n) }

// hold keeps the batches that are sent from now on in flight until release is called.
func (s *server) hold() (release func()) {
	wait := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = wait
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wait == wait {
			s.wait = nil
		}
		close(wait)
	}
}

// fill holds two batches in flight, so that the next call waits.
func (s *server) fill(ctx context.Context) (release func(), errs func() []error) {
	release = s.hold()
	return release, s.askMany(ctx, times(2)...)
}

func (s *server) seen() []seenBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *server) fail(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		s.failures[len(s.batches)+i] = err
	}
}

func (s *server) wantBatches(t *testing.T, want ...int) {
	t.Helper()
	var got []int
	for _, batch := range s.seen() {
		got = append(got, len(batch))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("batches of %v groups, want %v", got, want)
	}
}

func (s *server) wantIdle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if waiting, inFlight := s.Load(); waiting != 0 || inFlight != 0 {
		t.Errorf("%d wait and %d are in flight, want none", waiting, inFlight)
	}
}

func wantNone(t *testing.T, errs ...[]error) {
	t.Helper()
	if failed := slices.Concat(errs...); len(failed) > 0 {
		t.Errorf("%d failed: %v", len(failed), failed[0])
	}
}

func wantAll(t *testing.T, errs []error, n int, want error) {
	t.Helper()
	if len(errs) != n {
		t.Errorf("%d failed, want %d", len(errs), n)
	}
	for _, err := range errs {
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
}

// forBothClients runs a test with a client that heeds deadlines, and with one that does not.
func forBothClients(t *testing.T, test func(t *testing.T, s *server), change ...func(*Config[request, int])) {
	for name, heeds := range map[string]bool{"client heeds deadlines": true, "client ignores deadlines": false} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) { test(t, newServer(t, heeds, change...)) })
		})
	}
}
