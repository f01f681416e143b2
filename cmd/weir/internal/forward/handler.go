// Package forward answers proxies that ask whether a request may go on: ForwardAuth of Traefik, forward_auth of Caddy, and auth_request of nginx.
//
// A proxy describes the request in header fields:
//
//	X-Forwarded-Method  the method
//	X-Forwarded-Uri     the target, as the client has written it
//	X-Forwarded-Host    the host that the client asks for
//	X-Forwarded-For     the client's address, behind those that other proxies have told
//
// All other fields are those of the client. The fields are believed if the TCP peer is a trusted proxy: nobody else is answered. The request meets
// the policies of a set as if the limiter stood in the proxy: by its method, its host, and every reading of its path, since no route is known.
//
// A check has ended before the request is served. So nothing can depend on the response or on how long it takes: such policies are errors.
package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The fields in which nginx is told of a denial. Its auth_request understands 403 alone, and passes on no body.
const (
	// DeniedStatus is the status that the client is to be answered with.
	DeniedStatus = "X-Denied-Status"
	// DeniedProblem is the problem document that the client is to be answered with, in one line.
	DeniedProblem = "X-Denied-Problem"
)

// Handler decides about the requests that proxies describe. It may be used by many goroutines at once. Make one with [New].
type Handler struct {
	guard   *guard.Guard
	proxies []netip.Prefix
	client  func(*http.Request) netip.Addr
	logger  *slog.Logger
	logged  atomic.Int64 // when a refusal was logged last, in Unix nanoseconds
}

// New returns a Handler that decides by the policies of a set, and by the policies that replace them. It believes the proxies whose addresses or prefixes
// are trusted. It returns an error with the reason if none is, if one of them is malformed, and if a policy needs more than a check can know. Such policies
// never replace others.
func New(limiter *core.Limiter, options guard.Options, set guard.RuleSet, trusted ...string) (*Handler, error) {
	if len(trusted) == 0 {
		return nil, errors.New("no proxy is trusted, so that nobody could ask: name the addresses of your proxies, such as 10.0.0.0/8")
	}
	h := &Handler{logger: options.Logger}
	var err error
	if h.proxies, err = ParseProxies(trusted); err != nil {
		return nil, fmt.Errorf("the trusted proxies: %w", err)
	}
	if h.client, err = keyfuncs.ParseAddress("ip trusted " + strings.Join(trusted, " ")); err != nil {
		return nil, fmt.Errorf("the trusted proxies: %w", err)
	}
	if h.guard, err = guard.Follow(limiter, options, checked{set}); err != nil {
		return nil, err
	}
	return h, nil
}

// ParseProxies returns the prefixes of trusted proxies, which are named by addresses and prefixes. It returns an error with the reason if a text is neither,
// and if a prefix has bits behind its length or holds every address.
func ParseProxies(trusted []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(trusted))
	for i, text := range trusted {
		prefix, err := netip.ParsePrefix(text)
		if address, isAddress := netip.ParseAddr(text); isAddress == nil && address.Zone() == "" {
			address = address.Unmap()
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		masked := prefix.Masked()
		unmapped := prefix
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			unmapped = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		switch {
		case err != nil && strings.ContainsAny(text, ", "):
			return nil, fmt.Errorf("%q is no address and no prefix: name each by itself", text)
		case err != nil:
			return nil, fmt.Errorf("%q is no address and no prefix", text)
		case prefix != masked:
			return nil, fmt.Errorf("%q has bits behind its length: write %v, or %v for that address alone", text, masked, prefix.Addr())
		case unmapped.Bits() == 0:
			return nil, fmt.Errorf("%q holds every address: name those of your proxies", text)
		}
		prefixes[i] = unmapped
	}
	return prefixes, nil
}

// ServeHTTP answers Traefik and Caddy: with 200 if the request may go on, and otherwise with the denial, which they pass on to the client.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, func(http.Header) {}, func(denial *guard.Denial) {
		// A remote procedure call is answered as other requests are: its own answer may have the status 200, by which a proxy lets the call pass.
		plain := &http.Request{Method: http.MethodGet, URL: new(url.URL), Header: http.Header{"Accept": r.Header.Values("Accept")}}
		denial.ServeHTTP(w, plain.WithContext(r.Context()))
	})
}

// AuthRequest returns the handler that answers auth_request of nginx: with 200 if the request may go on, and otherwise with 403, and in [DeniedStatus] and
// [DeniedProblem] what the client is to be told.
func (h *Handler) AuthRequest() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, fit, func(denial *guard.Denial) {
			w.Header().Set(DeniedStatus, strconv.Itoa(denial.Status))
			problem := denial.Problem()
			text, err := json.Marshal(problem)
			if err == nil && len(text) > mostProblem {
				problem.ViolatedPolicies = nil
				text, err = json.Marshal(problem)
			}
			if err == nil {
				w.Header().Set(DeniedProblem, string(text))
			}
			w.WriteHeader(http.StatusForbidden)
		})
	})
}

// nginx reads 4 KiB of a header, and takes a longer one for no answer at all, so that it lets the request pass.
const (
	mostLimits  = 2 << 10 // how many bytes the fields about the limits may have together
	mostProblem = 1 << 10 // how many bytes the problem document may have
)

// fit removes the fields about the limits, such as those of very many policies, if nginx could not read them. Retry-After stays.
func fit(h http.Header) {
	n := 0
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	if n <= mostLimits {
		return
	}
	for name := range h {
		if name != "Cache-Control" && name != "Retry-After" {
			h.Del(name)
		}
	}
}

// serve decides about the request that a proxy describes. It changes the fields about the limits by fit, and answers a denial by deny.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, fit func(http.Header), deny func(*guard.Denial)) {
	w.Header().Set("Cache-Control", "no-store") // a proxy that caches would answer the next check by itself
	described, refused := h.described(r)
	if refused != nil {
		h.log(r, refused)
		deny(&guard.Denial{Status: refused.status})
		return
	}
	verdict := h.guard.Decide(described, nil)
	verdict.WriteHeader(w.Header())
	fit(w.Header())
	if verdict.Denial != nil {
		deny(verdict.Denial)
		return
	}
	verdict.Serve(w, func(w http.ResponseWriter, _ *http.Request) int {
		w.WriteHeader(http.StatusOK)
		return 0
	})
}

// refusal is the reason why a check is not decided.
type refusal struct {
	status int
	reason string
}

// described returns the request that a proxy describes.
func (h *Handler) described(r *http.Request) (*http.Request, *refusal) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // of another peer, such as one on a unix socket, it is the zero address, which nobody trusts
	address := peer.Addr().Unmap().WithZone("")
	if !slices.ContainsFunc(h.proxies, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return nil, &refusal{http.StatusForbidden, "the peer is no trusted proxy"}
	}
	method, target, host := r.Header[fieldMethod], r.Header[fieldURI], r.Header[fieldHost]
	switch {
	case len(method) != 1 || method[0] == "":
		return nil, &refusal{http.StatusBadRequest, fieldMethod + " has to be there, once"}
	case len(target) != 1:
		return nil, &refusal{http.StatusBadRequest, fieldURI + " has to be there, once"}
	case len(host) > 1:
		return nil, &refusal{http.StatusBadRequest, fieldHost + " is there twice"}
	case len(r.Header[fieldFor]) == 0:
		return nil, &refusal{http.StatusBadRequest, fieldFor + " is missing: all clients of the proxy would be one"}
	}
	u, err := parseTarget(target[0])
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	// The check itself has been routed: the described request must not be taken for a part of it. Many services take "post" for POST, so the check does.
	described, err := http.NewRequestWithContext(guard.AsOwn(r.Context()), strings.ToUpper(method[0]), "/", http.NoBody)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	described.URL, described.RequestURI, described.Host = u, target[0], u.Host
	if len(host) == 1 {
		described.Host = host[0]
	}
	described.Header = r.Header.Clone()
	for _, field := range [...]string{fieldMethod, fieldURI, fieldHost, fieldFor, "Forwarded"} {
		described.Header.Del(field) // told above, or believed by nobody
	}
	described.RemoteAddr = netip.AddrPortFrom(h.client(r), 0).String()
	return described, nil
}

// The fields in which a proxy describes a request.
const (
	fieldMethod = "X-Forwarded-Method"
	fieldURI    = "X-Forwarded-Uri"
	fieldHost   = "X-Forwarded-Host"
	fieldFor    = "X-Forwarded-For"
)

// betweenLogs is the least time between two lines of the log about checks that were not decided.
const betweenLogs = 10 * time.Second

// log tells of a check that was not decided, since that is a mistake in the configuration of a proxy, or an attempt. Most of many are left out.
func (h *Handler) log(r *http.Request, refused *refusal) {
	now, last := time.Now().UnixNano(), h.logged.Load()
	if now-last < int64(betweenLogs) || !h.logged.CompareAndSwap(last, now) {
		return
	}
	logger := h.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("weir: a check was not decided, and the request is denied", slog.String("reason", refused.reason), slog.String("peer", r.RemoteAddr))
}
