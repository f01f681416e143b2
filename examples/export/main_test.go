package main

import (
	"context"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachStore runs a test with the limiters of a fleet of two servers, in memory and on Redis.
func eachStore(t *testing.T, test func(t *testing.T, fleet [2]*core.Limiter)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		limiter := open(t, "memory:")
		test(t, [2]*core.Limiter{limiter, limiter})
	})
	t.Run("redis", func(t *testing.T) {
		url := "redis://" + miniredis.RunT(t).Addr()
		budget := core.WithBudget(10 * time.Second) // however slow the machine is
		test(t, [2]*core.Limiter{open(t, url, budget), open(t, url, budget)})
	})
}

func open(t *testing.T, url string, options ...core.Option) *core.Limiter {
	t.Helper()
	limiter, err := core.Open(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	return limiter
}

// start starts a server, whose log of panics nobody reads.
func start(t *testing.T, a *api) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(a.handler(t.Context()))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server
}

// export asks for an export as a tenant does, and returns the status and the error of reading what is streamed.
func export(t *testing.T, url, tenant string) (status int, err error) {
	t.Helper()
	response := begin(t, url, tenant)
	if response == nil {
		return 0, io.ErrUnexpectedEOF
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// begin begins an export. It returns nil if the server hangs up.
func begin(t *testing.T, url, tenant string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-of-"+tenant)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	return response
}

// one is an export of a single row.
func one(context.Context, string) iter.Seq[string] {
	return func(yield func(string) bool) { yield("row") }
}

// held is an export that sends a row and goes on until it is told to end, or its context ends.
func held(end <-chan struct{}) func(context.Context, string) iter.Seq[string] {
	return func(ctx context.Context, _ string) iter.Seq[string] {
		return func(yield func(string) bool) {
			if !yield("row") {
				return
			}
			select {
			case <-end:
			case <-ctx.Done():
			}
		}
	}
}

// left returns how many exports a tenant may still begin in this hour.
func left(t *testing.T, limiter *core.Limiter, tenant string) int {
	t.Helper()
	decision, err := limiter.Peek(t.Context(), "user:"+tenant, anHour)
	if err != nil {
		t.Fatal(err)
	}
	return decision.Remaining
}

func TestNeverMoreThanTwoForATenant(t *testing.T) {
	eachStore(t, func(t *testing.T, fleet [2]*core.Limiter) {
		var inside, most sync.Map // by tenant
		count := func(_ context.Context, file string) iter.Seq[string] {
			return func(yield func(string) bool) {
				now, _ := inside.LoadOrStore(file[:4], new(atomic.Int64))
				peak, _ := most.LoadOrStore(file[:4], new(atomic.Int64))
				n := now.(*atomic.Int64).Add(1)
				for old := peak.(*atomic.Int64).Load(); old < n && !peak.(*atomic.Int64).CompareAndSwap(old, n); {
					old = peak.(*atomic.Int64).Load()
				}
				time.Sleep(20 * time.Millisecond)
				yield("row")
				now.(*atomic.Int64).Add(-1)
			}
		}
		var clients sync.WaitGroup
		for _, limiter := range fleet {
			server := start(t, &api{limiter: limiter, maxWait: time.Minute, rows: count})
			for i := range 6 {
				for _, tenant := range []string{"acme", "globex"} {
					clients.Go(func() {
						if status, err := export(t, server.URL+"/exports/"+strconv.Itoa(i), tenant); status != http.StatusOK || err != nil {
							t.Errorf("answered %d, %v", status, err)
						}
					})
				}
			}
		}
		clients.Wait()
		for _, tenant := range []string{"acme", "glob"} {
			if peak, ok := most.Load(tenant); !ok || peak.(*atomic.Int64).Load() > 2 {
				t.Errorf("%s: %v at once", tenant, peak)
			}
		}
		if acme, globex := left(t, fleet[0], "acme"), left(t, fleet[0], "globex"); acme != 18 || globex != 18 {
			t.Errorf("%d and %d exports are left of 30", acme, globex)
		}
	})
}

func TestADeniedExportChargesNoRate(t *testing.T) {
	eachStore(t, func(t *testing.T, fleet [2]*core.Limiter) {
		end := make(chan struct{})
		server := start(t, &api{limiter: fleet[0], maxWait: 50 * time.Millisecond, rows: held(end)})
		other := start(t, &api{limiter: fleet[1], maxWait: 50 * time.Millisecond, rows: one})
		for _, file := range []string{"/exports/orders", "/exports/customers"} {
			response := begin(t, server.URL+file, "acme")
			if response == nil || response.StatusCode != http.StatusOK {
				t.Fatalf("answered %v", response)
			}
			defer response.Body.Close()
		}
		response := begin(t, other.URL+"/exports/invoices", "acme")
		if response == nil || response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
			t.Fatalf("a third export: %v", response)
		}
		response.Body.Close()
		if n := left(t, fleet[0], "acme"); n != 28 {
			t.Errorf("%d exports are left of 30", n)
		}
		if status, err := export(t, other.URL+"/exports/invoices", "globex"); status != http.StatusOK || err != nil {
			t.Errorf("another tenant: answered %d, %v", status, err)
		}
		close(end)
	})
}

func TestAPanicFreesThePlace(t *testing.T) {
	eachStore(t, func(t *testing.T, fleet [2]*core.Limiter) {
		server := start(t, &api{limiter: fleet[0], rows: func(context.Context, string) iter.Seq[string] { panic("on purpose") }})
		for range 2 {
			if _, err := export(t, server.URL+"/exports/orders", "acme"); err == nil {
				t.Error("the export has not panicked")
			}
		}
		other := start(t, &api{limiter: fleet[1], maxWait: 5 * time.Second, rows: one}) // much less than the lease
		if status, err := export(t, other.URL+"/exports/orders", "acme"); status != http.StatusOK || err != nil {
			t.Errorf("answered %d, %v", status, err)
		}
	})
}

func TestAnExportStopsWhenItsPlaceIsLost(t *testing.T) {
	eachStore(t, func(t *testing.T, fleet [2]*core.Limiter) {
		server := start(t, &api{limiter: fleet[0], rows: held(nil)})
		response := begin(t, server.URL+"/exports/orders", "acme")
		if response == nil || response.StatusCode != http.StatusOK {
			t.Fatalf("answered %v", response)
		}
		defer response.Body.Close()
		fleet[0].Close() // renews no lease any more
		if text, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("the export has ended well: %q", text)
		}
	})
}

func TestTheStorageRefusesAnOlderToken(t *testing.T) {
	var s storage
	for _, token := range []uint64{1, 2} { // the second has overtaken the first
		if err := s.create("acme/orders", token); err != nil {
			t.Fatal(err)
		}
	}
	if s.create("acme/orders", 1) == nil || s.add("acme/orders", 1, "late") == nil {
		t.Error("the older token was accepted")
	}
	if err := s.add("acme/orders", 2, "row"); err != nil {
		t.Error(err)
	}
	if err := s.create("acme/customers", 1); err != nil {
		t.Errorf("another file: %v", err)
	}
	if got := s.files["acme/orders"].rows; len(got) != 1 || got[0] != "row" {
		t.Errorf("kept %q", got)
	}
}

func TestTheEndWaitsForExports(t *testing.T) {
	eachStore(t, func(t *testing.T, fleet [2]*core.Limiter) {
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(http.DefaultClient.CloseIdleConnections)
		url := "http://" + listener.Addr().String() + "/exports/"
		end := make(chan struct{})
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		ended := make(chan error)
		go func() {
			ended <- run(ctx, &api{limiter: fleet[0], maxWait: time.Minute, rows: held(end)}, listener)
		}()
		var exporting []*http.Response
		for _, file := range []string{"orders", "customers"} {
			response := begin(t, url+file, "acme")
			if response == nil {
				t.Fatal("the server has hung up")
			}
			defer response.Body.Close()
			exporting = append(exporting, response)
		}
		waiting := make(chan int)
		go func() {
			status, _ := export(t, url+"invoices", "acme")
			waiting <- status
		}()
		time.Sleep(50 * time.Millisecond) // it waits, or comes a little later: the answer is the same
		interrupt()
		if status := <-waiting; status != http.StatusServiceUnavailable && status != 0 {
			t.Errorf("the one that waits: answered %d", status)
		}
		close(end)
		for _, response := range exporting {
			if text, err := io.ReadAll(response.Body); string(text) != "row\n" || err != nil {
				t.Errorf("exported %q, %v", text, err)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
}

func TestWhoHasNotSignedInExportsNothing(t *testing.T) {
	server := start(t, &api{limiter: open(t, "memory:"), rows: one})
	if status, _ := export(t, server.URL+"/exports/orders", "nobody"); status != http.StatusUnauthorized {
		t.Errorf("answered %d", status)
	}
}
