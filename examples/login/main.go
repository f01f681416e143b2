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
// the address. A login that succeeds forgives them. A second ban by the address alone takes more strikes, and forgives none: for
// guessers who try many users. Locally it never applies, since a peer of a private network may be a proxy.
//
// A strike is made when the answer is known. So logins in progress are limited, too, by the same keys: of 500 guesses at
// once, two are judged, and no more than five and two before the ban.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The bans of this service, and how many logins may be in progress at once beside them. Another program that uses their names
// shares them.
var (
	guessing = core.Ban{Strikes: core.SlidingLog(5, 10*time.Minute), First: time.Minute}.Named("guessing")
	guesses  = core.Concurrent(2, 30*time.Second).Named("guesses")
	spraying = core.Ban{Strikes: core.SlidingLog(50, 10*time.Minute), First: 10 * time.Minute}.Named("spraying")
	sprays   = core.Concurrent(10, 30*time.Second).Named("sprays")
)

// longestForm is how many bytes of a form are read.
const longestForm = 4 << 10

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	servers := []*http.Server{
		newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), newHandler(limiter, isRight)),
		newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), newAdmin(limiter)),
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

// newServer returns a server that does not wait long for a client.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
}

// byAddress is the client's address. Behind a proxy, it is keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8")), with
// the addresses of your proxies.
var byAddress = keyfuncs.RemoteIP

func newHandler(limiter *core.Limiter, isRight func(user, password string) bool) http.Handler {
	byUser := keyfuncs.Join(byAddress, keyfuncs.User(func(r *http.Request) string { return r.PostForm.Get("user") }))
	limit := ratelimit.New(limiter, ratelimit.Options{OnError: guard.FailClosed}, // no login while the store is away
		ratelimit.Policy{Ban: ratelimit.BanPolicy{Ban: guessing, Strike: wrongPasswords, Forgive: rightPassword}, By: byUser},
		ratelimit.Policy{Limit: guesses, By: byUser},
		ratelimit.Policy{Ban: ratelimit.BanPolicy{Ban: spraying, Strike: wrongPasswords}, By: byAddress},
		ratelimit.Policy{Limit: sprays, By: byAddress},
	)
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRight(r.PostForm.Get("user"), r.PostForm.Get("password")) {
			http.Error(w, "user or password is wrong", http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /login", readForm(limit(login)))
	return mux
}

// readForm reads the form of a request before the limits need it, and no more than longestForm of it. Files are not taken.
func readForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
			http.Error(w, "send a form: application/x-www-form-urlencoded", http.StatusUnsupportedMediaType)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, longestForm)
		if err := r.ParseForm(); err != nil {
			status := http.StatusBadRequest
			if _, long := errors.AsType[*http.MaxBytesError](err); long {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "the form cannot be read", status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wrongPasswords is a strike for each of them. A right one forgives none: a guesser with an account could clear the strikes of
// their address with it, and go on guessing at others.
func wrongPasswords(_ *http.Request, served ratelimit.Served) int {
	if served.Status == http.StatusUnauthorized {
		return 1
	}
	return 0
}

// rightPassword forgives the wrong ones before it, which were guesses at the same account.
func rightPassword(_ *http.Request, served ratelimit.Served) bool {
	return served.Status == http.StatusNoContent
}

// The rest stands for your own accounts.

var passwords = map[string]string{"alice": "secret", "bob": "secret"}

// isRight reports whether a password is that of a user.
func isRight(user, password string) bool {
	right, known := passwords[user]
	return subtle.ConstantTimeCompare([]byte(password), []byte(right)) == 1 && known
}

// newAdmin returns a handler for the operators of the service: keep it from everyone else. It answers on this machine alone; from
// elsewhere, come through ssh -L.
func newAdmin(limiter *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bans", func(w http.ResponseWriter, r *http.Request) {
		for _, ban := range []core.Ban{guessing, spraying} {
			if err := writeBans(r.Context(), w, limiter, ban); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
	})
	mux.Handle("POST /lift", readForm(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.PostForm.Get("key") // it is banned by one of them
		err := errors.Join(limiter.Lift(r.Context(), key, guessing), limiter.Lift(r.Context(), key, spraying))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})))
	return local(http.NewCrossOriginProtection().Handler(mux)) // no page of another site lifts a ban
}

// writeBans writes a line for each key that is banned.
func writeBans(ctx context.Context, w io.Writer, limiter *core.Limiter, ban core.Ban) error {
	for cursor := ""; ; {
		page, next, err := admin.Bans(ctx, limiter, ban, "", cursor)
		if err != nil {
			return err
		}
		for _, b := range page {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\tban %d\t%s\n", b.Key, b.Until.UTC().Format(time.RFC3339), ban.Limit().Name(), b.Bans, b.Reason)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// local serves requests that name this machine itself. A page of another site with a name that is made to lead here names that
// site, and to the browser it is of one origin with the console.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := (&url.URL{Host: r.Host}).Hostname(); name != "localhost" && name != "127.0.0.1" && name != "::1" {
			http.Error(w, "the console is for localhost alone", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
