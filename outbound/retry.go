package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/internal/dialect"
)

// Retry says how often calls that their hosts have not accepted are made again. The zero value makes none again. Each try
// waits under the limit and counts for it, like any other call.
//
// Only calls that do no harm twice are made again: GET, HEAD, OPTIONS, TRACE, PUT and DELETE, and others with an
// Idempotency-Key. A body has to be there again, so that a request with a body needs GetBody, as [http.NewRequest] sets it.
//
// A budget for each host bounds the retries, as gRPC's retryThrottling does. It has Tokens at first, and never more. A call
// that was not accepted takes one, an accepted call adds Ratio, and while half of the Tokens or less are left, no call is made
// again. So the retries are at most half of the Tokens, and Ratio for each accepted call. Each Transport has budgets of its
// own. The throttle of the Options stops no retry: the budget of a host that needs it allows none.
//
// The last answer goes to the caller.
type Retry struct {
	// Most is how many times a call is made again at most. The default is 0.
	Most int

	// Tokens is how many tokens a budget has at most. The default is 10, with which four calls in a row are made again.
	Tokens int

	// Ratio is the part of a token that an accepted call adds. The default is 0.1.
	Ratio float64

	// Pause is how long the pause before the first retry is, on average. Each further one is twice as long, and each is
	// between half and one and a half times its average. The default is 100 ms.
	//
	// If an answer says when to retry, the pause begins then. A call is not made again if that is later than LongestHoldBack or
	// LongestWait of the Options, if the context of the request ends before the pause does, or if the answer has X-Should-Retry: false.
	Pause time.Duration
}

const (
	defaultTokens = 10
	defaultRatio  = 0.1
	defaultPause  = 100 * time.Millisecond
	longestPause  = 24 * time.Hour // of each, as of a hold back
)

// withDefaults returns r with its defaults. It panics with the reason if r makes no sense.
func (r Retry) withDefaults() Retry {
	switch {
	case r.Most == 0 && r != Retry{}:
		panic("outbound: Retry makes no call again without Most")
	case r.Most < 0 || r.Tokens < 0 || r.Pause < 0:
		panic(fmt.Sprintf("outbound: Retry has a number below 0: %+v", r))
	case !(r.Ratio >= 0) || math.IsInf(r.Ratio, 1): // or not a number
		panic(fmt.Sprintf("outbound: the Ratio of Retry is %v, and has to be a number from 0", r.Ratio))
	}
	if r.Tokens == 0 {
		r.Tokens = defaultTokens
	}
	if r.Ratio == 0 {
		r.Ratio = defaultRatio
	}
	if r.Pause == 0 {
		r.Pause = defaultPause
	}
	return r
}

// tries makes a call, and makes it again while its host has not accepted it and Options.Retry allows it.
func (t *Transport) tries(r *http.Request) (*http.Response, error) {
	name := hostOf(r.URL)
	if err := r.Context().Err(); err != nil {
		return nil, notMade(r, err)
	}
	if err := t.throttled(name); err != nil {
		return nil, notMade(r, err)
	}
	for retries := 0; ; retries++ {
		response, again, err := t.try(r, name)
		if unmade, ok := errors.AsType[*notMadeError](err); ok {
			return nil, &notMadeError{made: retries, reason: unmade.reason}
		}
		if !again || retries == t.options.Retry.Most || !repeatable(r) {
			return response, err
		}
		pause, ok := t.pause(r.Context(), retries, response)
		if !ok {
			return response, err
		}
		next, bodyErr := rewound(r)
		if bodyErr != nil {
			return response, err
		}
		end := time.Now().Add(pause)
		if err == nil {
			discard(response, pause)
		}
		if err := sleep(r.Context(), time.Until(end)); err != nil {
			_ = notMade(next, err)
			return nil, &notMadeError{made: retries + 1, reason: err}
		}
		r = next
	}
}

// try makes a call once. It returns whether the host has rejected it and the budget allows a retry.
func (t *Transport) try(r *http.Request, name string) (response *http.Response, again bool, err error) {
	r, body := watched(r)
	response, err = t.once(r)
	returned := false
	defer func() { // a response that is not returned has its body closed here
		if !returned && err == nil && response != nil && response.Body != nil {
			_ = response.Body.Close()
		}
	}()
	of := t.outcomeOf(r, response, body, err)
	again = t.hosts.count(name, of, t.isOfKey(response)) && of == rejected
	returned = true
	return response, again, err
}

// repeatable returns whether a request does no harm twice, and can be made twice.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, once := r.Header["Idempotency-Key"] // also without a value, which net/http takes as a promise and does not send
	_, same := r.Header["X-Idempotency-Key"]
	return once || same
}

// rewound returns a request with its body from the beginning.
func rewound(r *http.Request) (*http.Request, error) {
	next := r.WithContext(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return next, nil
	}
	body, err := r.GetBody()
	next.Body = body
	return next, err
}

// pause returns how long to wait before a call is made again, or false if that is too long.
func (t *Transport) pause(ctx context.Context, retries int, response *http.Response) (pause time.Duration, ok bool) {
	doubled := float64(t.options.Retry.Pause) * math.Exp2(float64(retries)) * (0.5 + rand.Float64())
	pause = time.Duration(min(doubled, float64(longestPause)))
	if response != nil && response.Header.Get("X-Should-Retry") == "false" { // as OpenAI's SDK reads it
		return 0, false
	}
	if response != nil && t.options.LongestHoldBack > 0 {
		asked := dialect.WaitAsked(response.Header, time.Now())
		if asked > min(t.options.LongestHoldBack, longestPause) || t.options.LongestWait != 0 && asked > max(0, t.options.LongestWait) {
			return 0, false
		}
		pause += asked
	}
	end, ends := ctx.Deadline()
	return pause, !ends || pause < time.Until(end)
}

// shortBody is how much of a body is read, so that its connection can be used again.
const shortBody = 2 << 10

// discard ends a response that no caller gets, within some time.
func discard(response *http.Response, longest time.Duration) {
	if response.Body == nil {
		return
	}
	late := time.AfterFunc(longest, func() { _ = response.Body.Close() }) // the host may never end it
	_, _ = io.CopyN(io.Discard, response.Body, shortBody+1)
	if late.Stop() {
		_ = response.Body.Close()
	}
}

// sleep waits until a time has passed. It returns an error if the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
