// Package outbound keeps calls to another service's API within a limit, for the whole fleet:
//
//	client := &http.Client{Transport: outbound.New(limiter, core.Leaky(1, core.PerSecond(5)), outbound.Options{})}
//
// With a [core.Concurrent] limit, no more than n calls are in flight at once. With core.Leaky(1, …),
// calls leave at an even pace. A [core.Shaping] limit paces them, too, but a call that has got its turn is made even if its host asks for a pause meanwhile.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// Transport is an [http.RoundTripper] that keeps calls to another service's API within a
// limit, for the whole fleet: each call waits, within its request's context, until the
// limit of its key admits it, or with a [core.Shaping] limit until its turn. Under a
// [core.Concurrent] limit a call holds a place until the body of its response is closed, was
// read to its end or to an error, or the context of the request ends. Only a connection that
// speaks another protocol, such as a WebSocket, outlives that context. A Transport is made by
// [New], and may be used by many goroutines at once.
//
// An answer of 429 or 503 that says when to retry, by Retry-After-Ms, Retry-After, RateLimit, or a count of OpenAI's or
// Anthropic's API that is used up, holds the key back for all Transports in the fleet. The answer goes to the caller: a
// Transport makes no call again, unless [Retry] says so.
//
// A redirect that an [http.Client] follows is another call: it counts for the host that it goes to.
//
// A call that cannot be made in time fails at once with a [core.LimitedError], which the
// error of an [http.Client] wraps. It has not been sent, and costs nothing.
type Transport struct {
	limiter *core.Limiter
	options Options
	hosts   *hosts // nil without Throttle and Retry
}

// Options say how a [Transport] works. The zero value is ready to use.
type Options struct {
	// Base makes the calls. The default is [http.DefaultTransport].
	Base http.RoundTripper

	// By returns the key that a call counts for, such as an account. Calls to different hosts count apart all the same:
	// the whole key is the result of By, a space, and the host of the URL, "account:7 host:api.example.com". The default
	// is the host alone: "host:api.example.com". The host has its port, unless that is the usual one of the scheme. If By
	// returns "", the call is not limited.
	By func(*http.Request) string

	// AllHosts makes the result of By the whole key, for an API that has several hosts. Trust all of them: an answer that
	// says when to retry holds all hosts of the key back, and a redirect to any host counts for it. Without By, New
	// panics. The default is false.
	AllHosts bool

	// LimitFor picks a limit for each call, instead of the limit of New. A call under
	// [core.Unlimited] is not limited; a nil Limit and that of a ban are errors of the call.
	LimitFor func(*http.Request) core.Limit

	// LongestWait bounds how long a call waits, in addition to its context. The default, 0,
	// is no bound. Less than 0 does not wait at all.
	LongestWait time.Duration

	// LongestHoldBack bounds how long an answer that says when to retry holds the key back.
	// The default is a minute; less than 0 ignores such answers. It is at most
	// 24 hours; see [core.Limiter.HoldBack].
	LongestHoldBack time.Duration

	// FailClosed fails a call with the store's error when the store cannot answer. By default the call is made all the
	// same. No process counts by itself meanwhile: without FailClosed, calls are not limited at all.
	FailClosed bool

	// PassOverload makes a call although the store was not asked, since too many calls already wait for it in this process
	// ([core.Overloaded]). By default such a call fails, also without FailClosed: the store works, and a crowd must not
	// pass only because it is a crowd.
	PassOverload bool

	// Throttle spares a host that does not accept its calls, as chapter 21 of the book Site Reliability Engineering has it. A
	// call fails with [ErrThrottled], and is not made, with the chance of max(0, (calls − 2 · accepted) / (calls + 1)). Both
	// count the calls to the host in the last second, calls that were not made among them. So an overloaded host gets two calls for
	// each that it accepts, and about one a second besides. Calls without a limit are throttled, too. Each Transport counts by
	// itself, for each host, also if By tells accounts apart. The default is false.
	Throttle bool

	// Retry makes calls again that their hosts have not accepted. The default makes none again.
	Retry Retry

	// Rejected returns whether a host has not accepted a call, for Throttle and Retry. It gets a response or an error, and must
	// leave the body of the response alone. An error that it returns false for says nothing about the host.
	//
	// The default is true for the answers 429, 502, 503 and 504, and for errors of the network, a deadline that ends during
	// the call among them. With By, an answer of 429 is about an account, and Throttle does not count it. Rejected is not asked
	// about calls that were not made, that their callers have canceled, or that failed while the body of the request broke off or was awaited.
	//
	// If clients choose the deadlines of the calls, return false for context.DeadlineExceeded: deadlines that are too short
	// would throttle the calls of others. So would answers of 429 to one user among many, without By.
	Rejected func(*http.Response, error) bool

	// Observe is called with each error of the store. The default is to ignore it. If it panics, the call panics, and
	// holds no place after that.
	Observe func(*http.Request, error)
}

const defaultHoldBack = time.Minute

// New returns a Transport. It sends nothing. It panics with the reason if the limiter is
// nil, if the limit is not valid (with LimitFor it must be nil), if AllHosts is set without By, or if Retry or
// Rejected makes no sense.
func New(l *core.Limiter, limit core.Limit, options Options) *Transport {
	switch {
	case l == nil:
		panic("outbound: the limiter is nil")
	case limit != nil && options.LimitFor != nil:
		panic("outbound: a transport has both a limit and LimitFor: leave one out")
	case limit == nil && options.LimitFor == nil:
		panic("outbound: a transport has neither a limit nor LimitFor: give one")
	case options.AllHosts && options.By == nil:
		panic("outbound: AllHosts needs By, which gives the key of the calls to all hosts")
	}
	if options.LimitFor == nil {
		if err := problemOf(limit); err != nil {
			panic("outbound: " + err.Error())
		}
		options.LimitFor = func(*http.Request) core.Limit { return limit }
	}
	if options.Base == nil {
		options.Base = http.DefaultTransport
	}
	if options.LongestHoldBack == 0 {
		options.LongestHoldBack = defaultHoldBack
	}
	if options.Observe == nil {
		options.Observe = func(*http.Request, error) {}
	}
	t := &Transport{limiter: l, options: options}
	t.rememberHosts()
	return t
}

// RoundTrip implements [http.RoundTripper]. A request without a URL is an error.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil {
		return nil, notMade(r, errNoURL)
	}
	if t.hosts != nil {
		return t.tries(r)
	}
	return t.once(r)
}

// once makes a call when its limit admits it.
func (t *Transport) once(r *http.Request) (*http.Response, error) {
	key, limit := t.key(r), t.options.LimitFor(r)
	if key == "" || limit == core.Unlimited {
		return t.options.Base.RoundTrip(r)
	}
	held, err := t.wait(r, key, limit)
	if err != nil {
		return nil, notMade(r, err)
	}
	response, err := held.roundTrip(t.options.Base, r)
	if err == nil && (response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable) {
		t.holdBack(r, key, response)
	}
	return response, err
}

// key returns the key that a call counts for.
func (t *Transport) key(r *http.Request) string {
	switch by := t.options.By; {
	case by == nil:
		return hostOf(r.URL)
	case t.options.AllHosts:
		return by(r)
	default:
		key := by(r)
		if key == "" {
			return ""
		}
		return key + " " + hostOf(r.URL)
	}
}

// hostOf returns the part of a key that names the host of a URL. Different spellings of the same host and scheme give the
// same key: a redirect could choose among them.
func hostOf(u *url.URL) string {
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if ascii, err := idna.Lookup.ToASCII(name); err == nil && !isASCII(name) { // as net/http dials it
		name = ascii
	}
	name = strings.TrimSuffix(name, ".")
	if address, err := netip.ParseAddr(name); err == nil {
		name = address.Unmap().String()
	}
	if number, err := strconv.Atoi(port); err == nil {
		port = strconv.Itoa(number)
	}
	if port != "" && usualPorts[strings.ToLower(u.Scheme)] == port {
		port = ""
	}
	if port != "" {
		return "host:" + net.JoinHostPort(name, port)
	}
	return "host:" + name
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// usualPorts are the ports of the schemes that net/http knows.
var usualPorts = map[string]string{"http": "80", "https": "443"}

// CloseIdleConnections closes the idle connections of the Base, as
// [http.Client.CloseIdleConnections] does. It does nothing if the Base cannot do that.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

var errNoURL = errors.New("the request has no URL")

// notMade returns why a call was not made. It closes the body of the request, as a
// RoundTripper has to.
func notMade(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &notMadeError{reason: err}
}

// problemOf returns the reason why calls cannot wait under a limit, or nil.
func problemOf(limit core.Limit) error {
	switch limit := limit.(type) {
	case nil:
		return core.Quota{}.Validate()
	case core.Bans:
		return fmt.Errorf("outbound: calls wait under quotas and for places, not under the ban %s", limit)
	}
	return limit.Validate()
}

// wait returns when a call may be made, with the place that the call holds, if it holds one.
func (t *Transport) wait(r *http.Request, key string, limit core.Limit) (held *place, err error) {
	waits := []core.WaitOption{core.WithHoldBack()}
	if longest := t.options.LongestWait; longest != 0 {
		waits = append(waits, core.WithLongestWait(max(0, longest)))
	}
	switch limit := limit.(type) {
	case core.Quota:
		err = t.limiter.Wait(r.Context(), key, limit, waits...)
	case core.Places:
		held, err = acquire(r.Context(), t.limiter, key, limit, waits)
	default:
		return nil, problemOf(limit)
	}
	if err == nil || r.Context().Err() != nil {
		return held, err
	}
	if _, limited := errors.AsType[*core.LimitedError](err); limited || problemOf(limit) != nil {
		return nil, err
	}
	t.options.Observe(r, err)
	open := !t.options.FailClosed
	if errors.Is(err, core.Overloaded) {
		open = t.options.PassOverload
	}
	if open {
		return nil, nil //nolint:nilnil // it is made without a place
	}
	return nil, err
}

// holdBack holds the key back for as long as an answer asks.
func (t *Transport) holdBack(r *http.Request, key string, response *http.Response) {
	wait := min(dialect.WaitAsked(response.Header, time.Now()), t.options.LongestHoldBack)
	if wait <= 0 {
		return
	}
	if err := t.limiter.HoldBack(context.WithoutCancel(r.Context()), key, wait); err != nil {
		returned := false
		defer func() { // a response that is not returned has its body closed here
			if !returned && response.Body != nil {
				_ = response.Body.Close()
			}
		}()
		t.options.Observe(r, err)
		returned = true
	}
}
