// Export is the part of an API that lets tenants export their data, which is dear: an export takes
// seconds, and a connection to the database all the while.
//
//   - each tenant runs two exports at once, over all servers of the fleet, and all tenants together 20;
//   - each tenant begins 30 exports an hour. All three limits are checked in one call, and an export that
//     one of them denies is charged to none;
//   - an export waits up to five seconds for a place, and is then denied with 429;
//   - it is streamed to the client and kept as a file. A server that has lost its place, and does not know it
//     yet, cannot write into the file of the export that came after: the storage refuses it by its token;
//   - it stops when its client goes away, or its place is lost;
//   - while Redis is away, exports are closed: 503;
//   - at the end, exports in progress are finished, and waiting ones are answered with 503.
//
// To try it, begin three exports, each in a terminal of its own:
//
//	go run ./examples/export                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/export    # counts for a whole fleet
//
//	curl -iN -X POST -H 'Authorization: Bearer token-of-acme' localhost:8080/exports/orders
//	curl -iN -X POST -H 'Authorization: Bearer token-of-acme' localhost:8080/exports/customers
//	curl -iN -X POST -H 'Authorization: Bearer token-of-acme' localhost:8080/exports/invoices    # waits, and is denied
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The limits of exports. If a server dies, its places are free after the lease.
var (
	atOnce  = core.Concurrent(2, 30*time.Second).Named("tenant-exports")
	inAll   = core.Concurrent(20, 30*time.Second).Named("all-exports")
	anHour  = core.TokenBucket(30, core.PerHour(30)).Named("exports-an-hour")
	longest = 5 * time.Second // that an export waits for a place
)

func main() {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(interrupted, stop) // a second interrupt ends the process at once
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(interrupted, "tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err != nil {
		log.Fatal(err)
	}
	api := &api{limiter: limiter, maxWait: longest, rows: rows}
	err = run(interrupted, api, listener)
	_ = limiter.Close() // gives back the places that are left
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until the context ends, and then lets the exports in progress end.
func run(ctx context.Context, api *api, listener net.Listener) error {
	server := &http.Server{
		Handler:           api.handler(ctx),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // an export may take longer to write: see send
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	slog.Info("listening", "address", listener.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(err, server.Close()) // ends the contexts of the rest
	}
	return nil
}

// api is the API. Servers of a fleet share the state behind their limiters, and the storage.
type api struct {
	limiter *core.Limiter
	maxWait time.Duration
	rows    func(ctx context.Context, file string) iter.Seq[string] // until there is no more, or the context ends
	files   storage
}

// handler returns the public handler. When the context ends, no request waits for a place any more.
func (a *api) handler(stopping context.Context) http.Handler {
	limit := ratelimit.New(a.limiter,
		ratelimit.Options{Draining: stopping, OnError: guard.FailClosed},
		// The first policy's token is the one that PermitFrom tells. A tenant's files are written by
		// that tenant's exports alone, so the tenant's tokens are the right ones.
		ratelimit.Policy{Limit: atOnce, By: keyfuncs.User(tenantOf), Queue: ratelimit.QueuePolicy{MaxWait: a.maxWait}},
		ratelimit.Policy{Limit: inAll, By: keyfuncs.Global, Queue: ratelimit.QueuePolicy{MaxWait: a.maxWait}},
		ratelimit.Policy{Limit: anHour, By: keyfuncs.User(tenantOf)})
	mux := http.NewServeMux()
	mux.Handle("POST /exports/{file}", signedIn(limit(http.HandlerFunc(a.export))))
	return mux
}

// export streams a tenant's data to the client, and keeps it as a file.
func (a *api) export(w http.ResponseWriter, r *http.Request) {
	permit := guard.PermitFrom(r.Context()) // never nil under FailClosed
	name := tenantOf(r) + "/" + r.PathValue("file")
	if err := a.files.create(name, permit.Token()); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	ctx := permit.Context()              // ends with the place, and with the request
	for row := range a.rows(ctx, name) { //nolint:contextcheck // it is made of the request's
		if err := errors.Join(a.files.add(name, permit.Token(), row), send(w, row)); err != nil {
			slog.Warn("an export has stopped", "file", name, "error", err)
			panic(http.ErrAbortHandler) // the client must not take half an export for a whole one
		}
	}
	if ctx.Err() != nil {
		slog.Warn("an export has stopped", "file", name, "error", context.Cause(ctx)) //nolint:contextcheck // as above
		panic(http.ErrAbortHandler)
	}
}

// send sends a row at once. A client that does not read for ten seconds loses its export, and the
// place is free for others.
func send(w http.ResponseWriter, row string) error {
	stream := http.NewResponseController(w)
	if err := stream.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, row); err != nil {
		return err
	}
	return stream.Flush()
}

// The rest stands for your own storage, database and sessions.

// storage keeps files, and for each the greatest token that it has seen.
type storage struct {
	mu    sync.Mutex
	files map[string]*stored
}

type stored struct {
	token uint64
	rows  []string
}

// create begins a file anew. It refuses a token that is smaller than that of the file.
func (s *storage) create(name string, token uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file := s.files[name]; file != nil && token < file.token {
		return fmt.Errorf("token %d is older than %d, which has begun %s since", token, file.token, name)
	}
	if s.files == nil {
		s.files = make(map[string]*stored)
	}
	s.files[name] = &stored{token: token}
	return nil
}

// add adds a row to a file. It refuses every token but that of the file.
func (s *storage) add(name string, token uint64, row string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.files[name]
	if file == nil || token != file.token {
		return fmt.Errorf("%s is not the file of token %d any more", name, token)
	}
	file.rows = append(file.rows, row)
	return nil
}

// rows stands for the database: twenty rows in ten seconds.
func rows(ctx context.Context, file string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range 20 {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			if !yield(fmt.Sprintf("%s, row %d", file, i+1)) {
				return
			}
		}
	}
}

var tenants = map[string]string{"token-of-acme": "acme", "token-of-globex": "globex"}

// tenantOf returns who has signed in, or "".
func tenantOf(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return tenants[token]
}

// signedIn answers 401 to everybody who has not signed in.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tenantOf(r) == "" {
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
