package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const (
	senders = 16
	clients = 20
)

// load sends about the given number of requests a second to the service, until its context ends: as
// twenty clients, of which one sends far more than it may, and one worker that waits for
// its turn with a partner's API.
func (s *service) load(ctx context.Context, url string, perSecond int) {
	transport := &http.Transport{MaxIdleConnsPerHost: senders}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			every := time.NewTicker(senders * time.Second / time.Duration(perSecond))
			defer every.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-every.C:
					send(ctx, client, url)
				}
			}
		})
	}
	group.Go(func() {
		partner := core.TokenBucket(5, core.PerSecond(10)).Named("partner")
		for ctx.Err() == nil {
			if s.limiter.Wait(ctx, "partner", partner) != nil {
				time.Sleep(100 * time.Millisecond) // its store is down
			}
		}
	})
	group.Wait()
}

func send(ctx context.Context, client *http.Client, url string) {
	path, who := fmt.Sprintf("/items/%d", rand.IntN(1000)), rand.IntN(clients)
	switch rand.IntN(10) {
	case 0:
		path = "/reports"
	case 1:
		path = "/downloads"
	case 2, 3, 4, 5:
		who = 0
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	if err != nil {
		return
	}
	request.Header.Set("X-Client", fmt.Sprint("client ", who))
	response, err := client.Do(request)
	if err != nil {
		return // it is not up yet, or not any more
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
}
