// Observability is a server whose limits can be watched: it serves its metrics to
// Prometheus at /metrics, through OpenTelemetry, and the keys that are denied most at
// /offenders. With -load it sends requests to itself.
//
//	go run . -redis redis://localhost:6379 -load 300
//	curl localhost:8080/metrics localhost:8080/offenders
//
// README.md says how to look at it with Prometheus and Grafana.
package main

import (
	"cmp"
	"context"
	"errors"
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
	store := flag.String("redis", "", "`URL` of the store (default REDIS_URL, or else memory:)")
	load := flag.Int("load", 0, "requests a second to send to itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	s, err := newService(cmp.Or(*store, os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	err = s.run(ctx, *addr, *load)
	s.close()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until the context ends, and then lets the requests in flight end.
func (s *service) run(ctx context.Context, addr string, perSecond int) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Printf("listening on http://%s\nmetrics are at /metrics, and the keys that are denied most at /offenders\n", listener.Addr())

	loading, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	if perSecond > 0 {
		group.Go(func() { s.load(loading, "http://"+listener.Addr().String(), perSecond) })
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
