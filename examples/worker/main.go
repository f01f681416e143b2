// Worker ships orders through a partner's API that takes five calls a second, from however many
// processes:
//
//   - four workers share a queue, and each call waits until it is its turn in the whole fleet;
//   - a call that would wait more than ten seconds is not made, and tried again later;
//   - when the partner says Retry-After, every worker of every process holds back;
//   - while Redis is away no call is made, since no process would know how many there are;
//   - at the end, calls in flight are finished, and no new order is begun.
//
// The partner is in this program, too. Every tenth call finds it overloaded.
//
//	go run ./examples/worker                        # one process alone
//	curl -i -X POST localhost:9090/shipments        # be the partner's client: 429 while others use its limit up
//
// Two processes share the limit through Redis:
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/worker
//	REDIS_URL=redis://localhost:6379 PARTNER_URL=http://localhost:9090 go run ./examples/worker
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/outbound"
)

const (
	workers     = 4
	attempts    = 5
	longestWait = 10 * time.Second // for a turn
	longestCall = 30 * time.Second // with the wait for its turn
	grace       = 15 * time.Second // for the calls in flight at the end
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	partner := os.Getenv("PARTNER_URL")
	if partner == "" {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), "localhost:9090"))
		if err != nil {
			log.Fatal(err)
		}
		partner = "http://" + listener.Addr().String()
		standIn := &http.Server{Handler: newPartner(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
		go standIn.Serve(listener)
	}
	work(ctx, newClient(limiter), partner, orders(ctx))
	_ = limiter.Close()
}

// newClient returns a client that keeps the partner's limit. A bucket of one has them leave at
// an even pace, which suits every algorithm of the partner.
func newClient(limiter *core.Limiter) *http.Client {
	return &http.Client{
		Timeout: longestCall,
		Transport: outbound.New(limiter, core.Leaky(1, core.PerSecond(5)).Named("partner"), outbound.Options{
			By:          func(*http.Request) string { return "partner" }, // for all its host names
			LongestWait: longestWait,
			FailClosed:  true,
			Observe:     func(_ *http.Request, err error) { log.Print("the limit cannot be checked: ", core.FailureOf(err)) },
		}),
	}
}

// orders stands for your queue. It is closed when the context ends.
func orders(ctx context.Context) <-chan string {
	queue := make(chan string)
	go func() {
		defer close(queue)
		for i := 1; ; i++ {
			select {
			case queue <- fmt.Sprintf("%d-%d", os.Getpid(), i):
			case <-ctx.Done():
				return
			}
		}
	}()
	return queue
}

// work ships the orders of a queue until that is closed. When the context ends, the calls in
// flight still have some time to end.
func work(ctx context.Context, client *http.Client, partner string, queue <-chan string) {
	calling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cut) })

	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for order := range queue {
				for attempt := 1; ; attempt++ {
					err := ship(calling, client, partner, order)
					if err == nil {
						log.Printf("order %s is shipped", order)
						break
					}
					log.Printf("order %s, attempt %d: %v", order, attempt, err)
					if attempt == attempts || !pause(ctx, time.Duration(attempt)*200*time.Millisecond) {
						log.Printf("order %s goes back to the queue", order) // yours does that
						break
					}
				}
			}
		})
	}
	group.Wait()
}

// ship makes one call. Its error says why the order may have to be shipped again; the partner knows
// by the Idempotency-Key which orders it has shipped already.
func ship(ctx context.Context, client *http.Client, partner, order string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, partner+"/shipments", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", order)
	response, err := client.Do(request) // waits for its turn
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)); err != nil { // so that the connection is used again
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the partner says %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	return nil
}

// pause sleeps, and reports false if the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// newPartner stands for the partner's API.
func newPartner() http.Handler {
	limit := ratelimit.TokenBucket(core.New(core.NewMemory()), 5, core.PerSecond(5), keyfuncs.Global)
	var calls atomic.Int64
	return limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%10 == 0 {
			w.Header().Set("Retry-After", "2")
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "shipped")
	}))
}
