package main

import (
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}

// patience is how long clients wait for an answer. Later ones are work done for nobody.
const patience = time.Second

// capacity is how many requests the backend can serve in a second.
const capacity = float64(workers) / (float64(mean) / float64(time.Second))

// overload offers half of what the backend can do, for half a minute of simulated time, and then twice of it, for
// three minutes. It returns the share of the backend's capacity that became answers in time in those, and how many requests were
// answered with 503.
func overload(handler http.Handler) (goodput float64, shed int64) {
	offer(handler, capacity/2, 30*time.Second)
	const lasts = 3 * time.Minute
	good, shed := offer(handler, 2*capacity, lasts)
	return float64(good) / (capacity * lasts.Seconds()), shed
}

// offer sends so many requests a second, at random.
func offer(handler http.Handler, perSecond float64, lasts time.Duration) (inTime, shed int64) {
	var good, denied atomic.Int64
	var clients sync.WaitGroup
	for start := time.Now(); time.Since(start) < lasts; {
		clients.Go(func() {
			began, w := time.Now(), httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			switch {
			case w.Code == http.StatusServiceUnavailable:
				denied.Add(1)
			case w.Code == http.StatusOK && time.Since(began) <= patience:
				good.Add(1)
			}
		})
		time.Sleep(time.Duration(rand.ExpFloat64() / perSecond * float64(time.Second)))
	}
	clients.Wait()
	return good.Load(), denied.Load()
}

func TestAtTwiceTheCapacityTheWorkIsStillDone(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		goodput, shed := overload(protect(newBackend()))
		t.Logf("%.3f of the capacity, %d denied", goodput, shed)
		if goodput < 0.9 {
			t.Errorf("%.3f of the capacity was of use to somebody, want 0.9; %d were denied", goodput, shed)
		}
	})
}

// What the limit is good for: without it, everybody waits for so long that nobody waits any more.
func TestWithoutALimitNearlyNothingIsInTime(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		if goodput, _ := overload(newBackend()); goodput > 0.1 {
			t.Errorf("%.3f of the capacity was of use to somebody", goodput)
		}
	})
}

// Requests that are in flight when the program is told to end are answered.
func TestTheEndWaitsForRequestsInFlight(t *testing.T) {
	const inFlight = 40
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}, inFlight), make(chan struct{})
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			<-goOn
			io.WriteString(w, "done")
		}))
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answers := make(chan string, inFlight)
	for range inFlight {
		go func() {
			response, err := client.Get("http://" + listener.Addr().String())
			if err != nil {
				answers <- err.Error()
				return
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			answers <- string(body)
		}()
	}
	for range inFlight {
		<-begun
	}
	interrupt()
	for { // the end has begun when nobody listens any more
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		connection.Close()
	}
	select {
	case err := <-ended:
		t.Fatalf("it has ended with requests in flight: %v", err)
	default:
	}
	close(goOn)
	for range inFlight {
		if answer := <-answers; answer != "done" {
			t.Errorf("answered %q", answer)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
