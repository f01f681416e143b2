// Api is an API as it runs in production, behind a proxy on the same machine:
//
//   - each address gets 50 requests at once and then 10 a second, for all its users;
//   - each user gets the quota of their plan: free, pro, or unlimited;
//   - a login may fail ten times in a quarter of an hour for an address, and five for an account;
//   - while Redis is away, each server keeps its share of these limits, and logins are closed;
//   - probes and counters of denials are on an address of their own;
//   - at the end, requests in flight are served and settled.
//
// To try it, be the proxy:
//
//	go run ./examples/api                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/api    # counts for a whole fleet
//
//	curl -i -H 'X-Forwarded-For: 203.0.113.9' localhost:8080/items/7          # without signing in
//	curl -i -u alice:secret -X POST localhost:8080/login                      # alice is on the free plan, bob is pro, carol unlimited
//	for i in $(seq 6); do curl -i -H 'Authorization: Bearer token-of-alice' localhost:8080/orders; done
//	for i in $(seq 6); do curl -i -u alice:guess -X POST localhost:8080/login; done
//	curl -i localhost:8081/readyz localhost:8081/debug/vars
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// replicas is how many servers share the traffic, and the limits while Redis is away.
const replicas = 2

// address is the client's as the proxy tells it in X-Forwarded-For. Write the addresses of your
// proxies here: a header from any other peer is ignored.
var address = keyfuncs.IP(keyfuncs.TrustedProxies("127.0.0.1", "::1"))

// plans have one name, so that a user who changes plans keeps their usage.
var plans = map[string]core.Limit{
	"free":      core.TokenBucket(5, core.PerMinute(5)).Named("plan"),
	"pro":       core.TokenBucket(100, core.PerSecond(5)).Named("plan"),
	"unlimited": core.Unlimited,
}

// denied counts the requests that were denied, by policy, and unchecked ones by
// the kind of failure. A store that is down is logged, too, once in ten seconds.
var denied, failed = expvar.NewMap("ratelimit_denied"), expvar.NewMap("ratelimit_failed")

func main() {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(interrupted, stop) // a second interrupt ends the process at once
	public := listen(cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	private := listen(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"))
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	err = run(interrupted, limiter, public, private)
	_ = limiter.Close() // settles open reservations
	if err != nil {
		log.Fatal(err)
	}
}

func listen(addr string) net.Listener {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

// run serves until the context ends, and then lets the requests in flight end.
func run(ctx context.Context, limiter *core.Limiter, public, private net.Listener) error {
	if err := ping(ctx, limiter); err != nil {
		slog.Warn("starting although the limits' store does not answer", "error", err)
	}

	admin := &http.Server{
		Handler:           newAdmin(limiter),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	go admin.Serve(private)
	defer admin.Close() // until then it answers probes

	server := &http.Server{
		Handler:           newAPI(limiter),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(public) }()
	slog.Info("listening", "public", public.Addr(), "admin", private.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return server.Shutdown(ending)
}

// newAdmin returns the handler for operators alone.
func newAdmin(limiter *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	// The API goes on without Redis, so it stays ready, and names the fault: a probe that takes
	// every server out of service would be the outage.
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ping(r.Context(), limiter); err != nil {
			fmt.Fprintln(w, "ready, with limits of its own: the store is", core.FailureOf(err))
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /debug/vars", expvar.Handler())
	return mux
}

func ping(ctx context.Context, limiter *core.Limiter) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return limiter.Ping(ctx)
}

// newAPI returns the public handler: the limits stand behind the authentication and in front of
// the handlers that need a user, so one round trip asks for the address and for the user, and guessing tokens
// counts for the address.
func newAPI(limiter *core.Limiter) http.Handler {
	options := ratelimit.Options{OnError: guard.Fallback, Replicas: replicas, Observe: observe}
	everything := ratelimit.New(limiter, options,
		ratelimit.Policy{Limit: core.Leaky(50, core.PerSecond(10)).Named("address"), By: address},
		ratelimit.Policy{
			LimitFor: func(r *http.Request) core.Limit { return plans[userOf(r).plan] },
			By:       keyfuncs.User(func(r *http.Request) string { return userOf(r).name }),
			Skip:     func(r *http.Request) bool { return userOf(r) == nil }, // the limit by address is theirs
		})
	// Who knows the name of an account can lock its owner out for a while: that is the price of a
	// limit by account, and the one by address makes it dear.
	logins := ratelimit.New(limiter, options,
		ratelimit.Policy{
			Limit: core.SlidingLog(10, 15*time.Minute).Named("login-address"), By: address,
			Settle: ratelimit.SettlePolicy{Cost: failures}, OnError: guard.FailClosed,
		},
		ratelimit.Policy{
			Limit: core.SlidingLog(5, 15*time.Minute).Named("login-account"), By: keyfuncs.User(account),
			Settle: ratelimit.SettlePolicy{Cost: failures}, OnError: guard.FailClosed,
			Skip: func(r *http.Request) bool { return account(r) == "" },
		})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "item %s\n", r.PathValue("id")) })
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		if userOf(r) == nil {
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "orders of %s\n", userOf(r).name)
	})
	mux.Handle("POST /login", logins(http.HandlerFunc(login)))
	return identify(everything(mux))
}

// failures makes a login that succeeds cost nothing.
func failures(_ *http.Request, served ratelimit.Served) int {
	if served.Status == http.StatusUnauthorized {
		return 1
	}
	return 0
}

func observe(e ratelimit.Event) {
	if e.Err != nil {
		failed.Add(string(core.FailureOf(e.Err)), 1)
	}
	for _, outcome := range e.Outcomes {
		if !outcome.Decision.Allowed && !outcome.Shadow {
			denied.Add(outcome.Policy, 1)
		}
	}
}

// The rest stands for your own users and sessions.

type user struct{ name, password, plan string }

var (
	alice    = &user{"alice", "secret", "free"}
	bob      = &user{"bob", "secret", "pro"}
	carol    = &user{"carol", "secret", "unlimited"}
	users    = map[string]*user{"alice": alice, "bob": bob, "carol": carol}
	sessions = map[string]*user{"token-of-alice": alice, "token-of-bob": bob, "token-of-carol": carol}
)

type userKey struct{}

// userOf returns who has signed in, or nil.
func userOf(r *http.Request) *user {
	u, _ := r.Context().Value(userKey{}).(*user)
	return u
}

// identify finds the user by the token, and lets every request through: the handlers know who may do
// it.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if u := sessions[token]; u != nil {
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, u))
		}
		next.ServeHTTP(w, r)
	})
}

// account returns the name that a login is about, or "".
func account(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func login(w http.ResponseWriter, r *http.Request) {
	name, password, _ := r.BasicAuth()
	u := users[name]
	if u == nil || subtle.ConstantTimeCompare([]byte(password), []byte(u.password)) == 0 {
		http.Error(w, "wrong name or password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, "token-of-%s\n", name)
}
