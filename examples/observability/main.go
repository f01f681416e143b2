// Observability is a server with limits that can be watched: on an address of its own, for operators alone, it serves its
// metrics to Prometheus at /metrics, through OpenTelemetry, and the keys that are denied most at /offenders. With -load it
// sends requests to itself.
//
//	go run . -redis redis://localhost:6379 -load 300
//	curl localhost:8081/metrics localhost:8081/offenders
//
// README.md says how to look at it with Prometheus and Grafana.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	console := flag.String("console", "localhost:8081", "address for operators, which no client should reach")
	store := flag.String("redis", "", "`URL` of the store (default REDIS_URL, or else memory:)")
	load := flag.Int("load", 0, "requests a second to send to itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	s, err := newService(cmp.Or(*store, os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	err = s.run(ctx, *addr, *console, *load)
	s.close()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until the context ends, and then lets the requests in flight end.
func (s *service) run(ctx context.Context, addr, consoleAddr string, perSecond int) error {
	var config net.ListenConfig
	public, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	private, err := config.Listen(ctx, "tcp", consoleAddr)
	if err != nil {
		public.Close()
		return err
	}
	console := newServer(s.console)
	defer console.Close() // until then it can be watched how the API ends
	api := newServer(s.api)
	ended := make(chan error, 2)
	go func() { ended <- console.Serve(private) }()
	go func() { ended <- api.Serve(public) }()
	fmt.Printf("listening on http://%s\nfor operators, http://%s/metrics and /offenders, the keys that are denied most\n", public.Addr(), private.Addr())

	loading, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	if perSecond > 0 {
		group.Go(func() { s.load(loading, "http://"+public.Addr().String(), perSecond) })
	}
	select {
	case err := <-ended:
		api.Close()
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return api.Shutdown(ending)
}

// newServer returns a server that does not wait long for a client.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
}
