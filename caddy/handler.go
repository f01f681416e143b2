package caddyratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

// Handler limits requests. A request that is denied is answered with 429, Retry-After and a problem document; each answer has the fields RateLimit and
// RateLimit-Policy. Limits with the same numbers and the same key are one limit, in whichever sites and servers they stand, if these have one store.
//
// Patterns match the path as it is where the handler stands, in every way in which it may be read, and in capitals as in small letters, as Caddy's
// own matchers do.
//
// The address of a client is the one that Caddy has found by the server's trusted_proxies, if it has trusted_proxies_strict, too. Without that, Caddy
// takes the first address in X-Forwarded-For, which is the client's to write: the requests of a trusted proxy then count for the proxy, and the log says so.
type Handler struct {
	// Store is where the limits are counted: the URL of Redis, such as redis://localhost:6379, or memory:, which is this server alone. The default is
	// memory:. A reload of the configuration keeps the used units. Placeholders such as {env.REDIS_URL} are replaced when the configuration is loaded.
	Store string `json:"store,omitempty"`
	// Policies is the path of a file of limits in YAML or JSON, which is followed: see package policies of this library.
	Policies string `json:"policies,omitempty"`
	// Limits are limits in place of a file.
	Limits []Limit `json:"limits,omitempty"`

	guard *guard.Guard
	url   string // of the store that the pool has for this handler; "": none
	once  sync.Once
	log   *zap.Logger
}

// Limit is a limit of a [Handler].
type Limit struct {
	// Limit says how much is allowed, such as "leaky 10, 1/s", "sliding-window 100, 1m" or "concurrent 20, 30s".
	Limit string `json:"limit"`
	// Match says which requests meet it, by patterns such as "POST /login" or "example.com/api/". The most specific one counts, among all limits.
	// The default is all requests.
	Match []string `json:"match,omitempty"`
	// Key says which requests count together: client_ip, user (of Caddy's authentication, in front of this handler), header X-API-Key, and so on, with
	// "and" and "or" between them. The default is client_ip.
	Key string `json:"key,omitempty"`
	// OnError is the answer while the store does not answer: "open", the default, "closed" or "fallback".
	OnError string `json:"on_error,omitempty"`
}

// limiters are those of all configurations that are in force, by the URLs of their stores: the next configuration finds them before the last one leaves.
var limiters = caddy.NewUsagePool()

// limiter is one of the pool.
type limiter struct{ *core.Limiter }

// Destruct implements [caddy.Destructor].
func (l limiter) Destruct() error { return l.Close() }

func init() { caddy.RegisterModule(new(Handler)) } //nolint:gochecknoinits // as Caddy finds its modules

// CaddyModule implements [caddy.Module].
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.weir", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements [caddy.Provisioner].
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	url, err := caddy.NewReplacer().ReplaceOrErr(h.Store, true, true)
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	if url == "" {
		url = "memory:"
	}
	pooled, _, err := limiters.LoadOrNew(url, func() (caddy.Destructor, error) {
		opened, err := core.Open(url)
		return limiter{opened}, err
	})
	if err != nil {
		return err
	}
	h.url = url
	of, _ := pooled.(limiter)
	set, err := h.set(ctx)
	if err != nil {
		return err
	}
	h.guard, err = guard.Follow(of.Limiter, guard.Options{Logger: ctx.Slogger()}, set)
	return err
}

// set returns the policies of the file, or those of the limits.
func (h *Handler) set(ctx caddy.Context) (*policies.Set, error) {
	options := policies.Options{
		Keys: map[string]keyfuncs.Func{"client_ip": h.clientIP, "user": keyfuncs.User(userOf)}, AnyCase: true, Logger: ctx.Slogger(),
	}
	switch {
	case h.Policies != "" && len(h.Limits) > 0:
		return nil, errors.New("there are both a file of policies and limits: leave one of them out")
	case h.Policies == "" && len(h.Limits) == 0:
		return nil, errors.New("there is neither a limit nor a file of policies: write one of them")
	case h.Policies != "":
		return policies.Watch(ctx, policies.File(h.Policies), options)
	}
	document := new(policies.Document)
	for _, limit := range h.Limits {
		policy := policies.Policy{Limit: limit.Limit, Key: limit.Key, OnError: limit.OnError}
		if policy.Key == "" {
			policy.Key = "client_ip"
		}
		for _, pattern := range limit.Match {
			policy.Match = append(policy.Match, policies.Match{Pattern: pattern})
		}
		document.Policies = append(document.Policies, policy)
	}
	return document.Set(options)
}

// Cleanup implements [caddy.CleanerUpper].
func (h *Handler) Cleanup() error {
	if h.url == "" {
		return nil
	}
	_, err := limiters.Delete(h.url)
	return err
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	method, body := r.Method, r.Body
	asked := r.WithContext(r.Context())
	asked.Method = strings.ToUpper(method) // many services take post for POST
	if r.ContentLength == 0 {
		asked.Body = http.NoBody // Caddy puts another one in its place
	}
	verdict := h.guard.Decide(asked, nil)
	verdict.WriteHeader(w.Header())
	if verdict.Denial != nil {
		verdict.Denial.ServeHTTP(w, verdict.Request)
		return nil
	}
	verdict.Serve(w, func(w http.ResponseWriter, with *http.Request) (unanswered int) {
		*r = *with // placeholders of Caddy's read this request
		if r.Method = method; r.Body == http.NoBody {
			r.Body = body
		}
		defer verdict.Replaced(r)
		if err = next.ServeHTTP(w, r); err == nil {
			return 0
		}
		if answered, is := errors.AsType[caddyhttp.HandlerError](err); is && answered.StatusCode != 0 {
			return answered.StatusCode
		}
		return http.StatusInternalServerError
	})
	return err
}

// clientIP is the key of the address that Caddy has found.
func (h *Handler) clientIP(r *http.Request) (string, error) {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if trusted && (server == nil || server.TrustedProxiesStrict == 0) {
		h.once.Do(func() {
			h.log.Warn("all clients of a trusted proxy count as one, since the client writes the address that Caddy takes: set trusted_proxies_strict")
		})
		address = ""
	}
	if address == "" {
		return keyfuncs.RemoteIP(r)
	}
	other := *r
	other.RemoteAddr = address
	return keyfuncs.RemoteIP(&other)
}

// userOf returns the user that Caddy's authentication has found.
func userOf(r *http.Request) string {
	replacer, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if replacer == nil {
		return ""
	}
	user, _ := replacer.GetString("http.auth.user.id")
	return user
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
