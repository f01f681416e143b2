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
	"context"
	"flag"
	"log"
	"sync"

	"github.com/weir-go/ratelimit/examples/internal/serve"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	store := serve.StoreFlag(flag.CommandLine, "memory:")
	load := flag.Int("load", 0, "requests a second to send to itself")
	flag.Parse()
	if err := run(*addr, store(), *load); err != nil {
		log.Fatal(err)
	}
}

func run(addr, store string, perSecond int) error {
	s, err := newService(store)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	if perSecond > 0 {
		group.Go(func() { s.load(ctx, "http://"+addr, perSecond) })
	}
	return serve.Run(addr, s.handler, "metrics are at /metrics, and the keys that are denied most at /offenders")
}
