// Demo shows the seven algorithms at work, on a page of its own: the state of each,
// its answers, and when the next request passes. Seven more cards show
// quotas as products sell them: a day in Berlin, places, headroom, prepaid credits, fair shares, debt and bans.
//
//	go run ./examples/demo                                  # then open http://localhost:8080
//	go run ./examples/demo -redis redis://localhost:6379    # or REDIS_URL, where there is a password
//	go run ./examples/demo -addr :8080 -host my-laptop      # for others in your network, at http://my-laptop:8080
//
// Each browser that opens the page is a visitor with keys of its own. Every click becomes
// real requests, which this program sends to itself over HTTP, through the
// middleware for net/http, gin or echo. The pictures are drawn from the
// limiter's answers, twenty times a second.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // Berlin is there, too, where the machine has no time zones

	"github.com/weir-go/ratelimit/core"
)

const (
	// patience is how long the store may take to answer at the start, and a client to
	// take something.
	patience = 5 * time.Second
	// grace is how long requests may take to end after an interrupt.
	grace    = time.Second
	inMemory = "memory:"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	var names []string
	const hostUsage = "another `name` of this machine by which the page may be opened; may be given several times (default localhost alone)"
	flag.Func("host", hostUsage, func(name string) error {
		names = append(names, name)
		return nil
	})
	store := flag.String("redis", "", "`URL` of the store (default REDIS_URL, or else memory:)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	if err := run(ctx, *addr, names, cmp.Or(*store, os.Getenv("REDIS_URL"), inMemory), os.Stdout); err != nil {
		log.Fatal("demo: ", err)
	}
}

// run serves the page until the context ends, and leaves nothing running.
func run(ctx context.Context, addr string, names []string, store string, out io.Writer) error {
	counters, err := core.OpenStore(store)
	if err != nil {
		return err
	}
	defer counters.Close()
	pinging, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := counters.Ping(pinging); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	p := newPage(counters, describeStore(store), listener.Addr())
	p.hosts = p.hosts.with(addr, names)
	fmt.Fprintf(out, "open http://%s\nthe counters are in %s\n", opened(listener.Addr()), p.store)
	return p.serve(ctx, listener)
}

// serve serves the page until the context ends, and leaves nothing running.
func (p *page) serve(ctx context.Context, listener net.Listener) error {
	defer p.close()
	server := &http.Server{ // no WriteTimeout: it would cut streams and requests that wait for their turn
		Handler:           p.handler(),
		ReadHeaderTimeout: patience,
		ReadTimeout:       2 * patience,
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	p.end() // the streams would not end by themselves, nor some of the requests that wait
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	// Only connections that browsers have opened and never used are left.
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// describeStore says where the counters are, without a word of the password.
func describeStore(store string) string {
	u, err := url.Parse(store)
	if err != nil || strings.HasPrefix(store, inMemory) {
		return "this program's memory"
	}
	return "Redis at " + cmp.Or(u.Host, u.Path)
}
