package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// watchedContext is a context that counts who waits for its end.
type watchedContext struct {
	context.Context //nolint:containedctx // it is one

	waiting int
}

// Value hides what the context is made of.
func (c *watchedContext) Value(any) any { return nil }

// AfterFunc is what context.AfterFunc calls.
func (c *watchedContext) AfterFunc(f func()) (stop func() bool) {
	c.waiting++
	stopped := context.AfterFunc(c.Context, f)
	return func() bool {
		c.waiting--
		return stopped()
	}
}

// settlingGuard is a guard that settles into a channel.
func settlingGuard(options guard.Options) (*guard.Guard, chan guard.Served) {
	settled := make(chan guard.Served, 9)
	return guard.Must(guard.New(memory(), options, guard.Policy{
		Limit:  core.FixedWindow(5, time.Hour),
		Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int { settled <- served; return 1 }},
	})), settled
}

// admitted returns the verdict about a request that a guard has let through.
func admitted(t *testing.T, g *guard.Guard, ctx context.Context) guard.Verdict { //nolint:revive // the test comes first
	t.Helper()
	verdict := g.Decide(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), nil)
	if verdict.Denial != nil {
		t.Fatalf("denied with %d", verdict.Denial.Status)
	}
	return verdict
}

func TestASettledRequestIsNotWaitedForAnyLonger(t *testing.T) {
	g, settled := settlingGuard(guard.Options{})
	ended, end := context.WithCancel(t.Context())
	ctx := &watchedContext{Context: ended}
	verdict := admitted(t, g, ctx)
	verdict.Answered(http.StatusTeapot) // the handler has not run
	verdict.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int {
		verdict.Answered(http.StatusTeapot) // nor left anything to be answered
		return http.StatusUnauthorized
	})
	if ctx.waiting != 1 || len(settled) != 0 {
		t.Fatalf("%d wait for the end of the request, and %d are settled, want 1 and 0", ctx.waiting, len(settled))
	}
	verdict.Answered(http.StatusEarlyHints) // which is no answer
	verdict.Answered(http.StatusForbidden)
	verdict.Answered(http.StatusTeapot)
	end()
	if ctx.waiting != 0 || len(settled) != 1 {
		t.Errorf("%d wait for the end of the request, and %d are settled, want 0 and 1", ctx.waiting, len(settled))
	}
	if served := <-settled; served.Status != http.StatusForbidden || served.Unanswered {
		t.Errorf("settled by %+v, want 403", served)
	}
}

// Who answers and the end of the request may come at the same time.
func TestARequestIsSettledOnceByManyAtATime(t *testing.T) {
	var settled sync.Map
	for i := range 200 {
		var once []guard.Served
		var mu sync.Mutex
		g := guard.Must(guard.New(memory(), guard.Options{}, guard.Policy{
			Limit: core.FixedWindow(5, time.Hour),
			Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int {
				mu.Lock()
				defer mu.Unlock()
				once = append(once, served)
				settled.Store(i, len(once))
				return 1
			}},
		}))
		ctx, end := context.WithCancel(t.Context())
		verdict := admitted(t, g, ctx)
		verdict.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return http.StatusUnauthorized })
		var all sync.WaitGroup
		all.Go(end)
		for range 3 {
			all.Go(func() { verdict.Answered(http.StatusForbidden) })
		}
		all.Wait()
	}
	for i := range 200 {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if times, ok := settled.Load(i); ok {
				if times != 1 {
					t.Errorf("request %d was settled %d times", i, times)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("request %d was never settled", i)
			}
		}
	}
}

// away is a store that settles nothing for a while, as while its breaker is open.
type away struct {
	core.Store

	tries atomic.Int32 // left until it is back
}

func (s *away) Settle(ctx context.Context, settlements []core.Settlement) error {
	if s.tries.Add(-1) >= 0 {
		return fmt.Errorf("%w: %w", core.Suspended, core.ErrNotDone)
	}
	return s.Store.Settle(ctx, settlements)
}

// What was certainly not settled when a request ends is settled as soon as the store is back; the
// request does not wait for that.
func TestASettlementThatWasNotSentIsTriedAgain(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := &away{Store: core.NewMemory()}
		store.tries.Store(5)
		limiter, limit := core.New(store), core.FixedWindow(5, time.Hour)
		defer limiter.Close()
		var errs []error
		g := guard.Must(guard.New(limiter, guard.Options{Observe: func(e guard.Event) {
			if e.Settled {
				errs = append(errs, e.Err)
			}
		}}, guard.Policy{
			Limit: limit, Cost: func(*http.Request) int { return 3 },
			By:     func(*http.Request) (string, error) { return "key", nil },
			Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 1 }},
		}))
		start := time.Now()
		admitted(t, g, t.Context()).Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return 0 })
		if took := time.Since(start); took > 0 {
			t.Errorf("the request was held for %v", took)
		}
		synctest.Wait() // for the settlement beside the response
		if len(errs) != 1 || !errors.Is(errs[0], core.ErrNotDone) || core.FailureOf(errs[0]) != core.Suspended {
			t.Errorf("told of %v, want one error that says it is not done yet", errs)
		}
		time.Sleep(2 * time.Second)
		if d, err := limiter.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 4 {
			t.Errorf("%d remain of 5, want 4: %v", d.Remaining, err)
		}
	})
}

// A context that has ended tells of no end, so nothing is left to wait for.
func TestARequestThatHasEndedIsSettledAtOnce(t *testing.T) {
	g, settled := settlingGuard(guard.Options{})
	ctx, end := context.WithCancel(t.Context())
	verdict := admitted(t, g, ctx)
	verdict.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int {
		end()
		return http.StatusUnauthorized
	})
	if len(settled) != 1 {
		t.Fatal("not settled")
	}
	if served := <-settled; served.Status != http.StatusUnauthorized || !served.Unanswered {
		t.Errorf("settled by %+v, want 401, unanswered", served)
	}
}

// A panic on a goroutine of its own would end the program.
func TestASettleThatPanicsWhenTheRequestHasEndedIsLogged(t *testing.T) {
	logged := make(chan string, 1)
	g := guard.Must(guard.New(memory(), guard.Options{Logger: slog.New(slog.NewTextHandler(lines(logged), nil))}, guard.Policy{
		Limit:  core.FixedWindow(5, time.Hour),
		Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { panic("on purpose") }},
	}))
	ctx, end := context.WithCancel(t.Context())
	admitted(t, g, ctx).Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return http.StatusUnauthorized })
	end()
	if got := <-logged; !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "on purpose") {
		t.Errorf("logged %q, want the panic", got)
	}
}

// lines is a writer of what is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(bytes.Clone(line))
	return len(line), nil
}

// What is told before the request ends counts, also where nobody is seen to answer; what is told of
// no request is lost.
func TestWhatIsSpentWhileTheAnswerIsLeftToOthersCounts(t *testing.T) {
	settled := make(chan int, 1)
	policy := perHour(100)
	policy.Settle.Cost = func(_ *http.Request, served guard.Served) int {
		settled <- served.Spent
		return served.Spent
	}
	g := guard.Must(guard.New(memory(), guard.Options{}, policy))
	ctx, end := context.WithCancel(t.Context())
	verdict := g.Decide(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), nil)
	verdict.Serve(httptest.NewRecorder(), func(_ http.ResponseWriter, r *http.Request) int {
		guard.Spend(r.Context(), 3)
		return http.StatusInternalServerError
	})
	guard.Spend(verdict.Request.Context(), 4)
	guard.Spend(ctx, 100) // the limiter's context is another one
	end()
	if spent := <-settled; spent != 7 {
		t.Errorf("settled at %d, want 7", spent)
	}
}

// A request is settled by its own call, whichever requests have been decided since.
func TestASettlementIsOfItsOwnCall(t *testing.T) {
	l := memory()
	limits := []core.Quota{core.FixedWindow(100, time.Hour), core.FixedWindow(50, time.Hour)}
	policies := make([]guard.Policy, len(limits))
	for i, limit := range limits {
		policies[i] = guard.Policy{
			Limit: limit, By: func(r *http.Request) (string, error) { return r.URL.Path, nil },
			Settle: guard.SettlePolicy{Cost: func(r *http.Request, _ guard.Served) int { return len(r.URL.Path) }},
		}
	}
	g := guard.Must(guard.New(l, guard.Options{}, policies...))
	var verdicts []guard.Verdict
	for n := range 20 {
		path := "/" + strings.Repeat("a", n)
		verdicts = append(verdicts, g.Decide(httptest.NewRequest(http.MethodGet, path, nil), nil))
	}
	for _, v := range verdicts {
		v.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return 0 })
	}
	for n := range 20 {
		for _, limit := range limits {
			d, err := l.Peek(t.Context(), "/"+strings.Repeat("a", n), limit)
			if want := limit.Capacity() - n - 1; err != nil || d.Remaining != want {
				t.Errorf("%d of %s remain of a request that costs %d, want %d; %v", d.Remaining, limit, n+1, want, err)
			}
		}
	}
}
