// Login is a login that bans who guesses passwords: for a minute after five wrong ones, and for longer each time.
//
//	go run ./examples/login                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/login    # bans for a whole fleet
//
//	for i in $(seq 6); do curl -i -d user=alice -d password=wrong localhost:8080/login; done    # 401 five times, then 403
//	curl -i -d user=alice -d password=secret localhost:8080/login                               # 403 until the ban ends
//	curl localhost:8081/bans                                                                    # who is banned, for consoles
//	curl -X POST --data-urlencode key="$(curl -s localhost:8081/bans | cut -f1)" localhost:8081/lift
//
// Strikes count by user and address together, so that a guesser does not lock the user out, nor the others who share
// the address. A second ban by the address alone takes more strikes: for those who try many users. Locally it never
// applies, since a peer of a private network may be a proxy.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The bans of this service. Any other one that uses their names shares them.
var (
	guessing = core.Ban{Strikes: core.SlidingLog(5, 10*time.Minute), First: time.Minute}.Named("guessing")
	spraying = core.Ban{Strikes: core.SlidingLog(50, 10*time.Minute), First: 10 * time.Minute}.Named("spraying")
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	servers := []*http.Server{
		{Addr: cmp.Or(os.Getenv("ADDR"), "localhost:8080"), Handler: newHandler(limiter), ReadHeaderTimeout: 5 * time.Second},
		{Addr: cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), Handler: newAdmin(limiter), ReadHeaderTimeout: 5 * time.Second},
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	for _, server := range servers {
		go func() {
			log.Printf("listening on http://%s", server.Addr)
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				log.Fatal(err)
			}
		}()
	}
	<-interrupted.Done()
	stop() // a second interrupt ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, server := range servers {
		_ = server.Shutdown(ctx)
	}
	_ = limiter.Close()
}

// byAddress is the client's address. Behind a proxy, it is keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), with
// the addresses of your proxies.
var byAddress = keyfuncs.RemoteIP

func newHandler(limiter *core.Limiter) http.Handler {
	byUser := keyfuncs.User(func(r *http.Request) string { return r.PostFormValue("user") })
	limit := ratelimit.New(limiter, ratelimit.Options{},
		ratelimit.Policy{Ban: guessing, By: keyfuncs.Join(byAddress, byUser), Strike: wrongPasswords},
		ratelimit.Policy{Ban: spraying, By: byAddress, Strike: wrongPasswords},
	)
	mux := http.NewServeMux()
	mux.Handle("POST /login", limit(http.HandlerFunc(login)))
	return mux
}

// wrongPasswords is a strike for each of them. One that is right forgives those before.
func wrongPasswords(_ *http.Request, served ratelimit.Served) int {
	switch served.Status {
	case http.StatusUnauthorized:
		return 1
	case http.StatusNoContent:
		return core.Forgive
	}
	return 0
}

func login(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte("secret")) == 0 {
		http.Error(w, "user or password is wrong", http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// newAdmin returns a handler for those who run the service: keep it from everybody else.
func newAdmin(limiter *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bans", func(w http.ResponseWriter, r *http.Request) {
		for cursor := ""; ; {
			page, next, err := admin.Bans(r.Context(), limiter, guessing, "", cursor)
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			for _, b := range page {
				_, _ = fmt.Fprintf(w, "%s\t%s\tban %d\t%s\n", b.Key, b.Until.UTC().Format(time.RFC3339), b.Bans, b.Reason)
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	})
	mux.HandleFunc("POST /lift", func(w http.ResponseWriter, r *http.Request) {
		if err := limiter.Lift(r.Context(), r.PostFormValue("key"), guessing); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
