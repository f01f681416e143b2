package headers

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Draft writes the fields of the newest published IETF draft, at present draft-ietf-httpapi-ratelimit-headers-11. They
// carry any number of policies:
//
//	RateLimit-Policy: "burst";q=1;w=1;weir-burst=10, "daily";q=1000;w=86400
//	RateLimit: "burst";r=9;t=9, "daily";r=640;t=55296
//
// RateLimit-Policy describes each policy: q units in w seconds, and at most weir-burst
// at once, where that differs from q. The parameter qu is the unit, unless that is requests:
//
//	RateLimit-Policy: "traffic";q=1000000;qu="content-bytes";w=60
//
// RateLimit says how much of it is left now:
//
//   - r is Remaining.
//   - t is the time in seconds in which the client should use no more than r. A client
//     that uses r at the rate of the policy is not denied, so t is r divided by that
//     rate, and at least the time until one more unit is free. For a policy that has
//     denied the request, t is the time after which the request would pass. It is absent
//     if no wait can help.
//
// The policy of a [core.Concurrent] limit has neither w nor t, since it is not known when its places will be free:
//
//	RateLimit-Policy: "exports";q=20;qu="concurrent-requests"
//	RateLimit: "exports";r=3
//
// Nor has that of a [core.Balance]: its q is the most that a balance can hold, and r the units that are left.
//
// No t is longer than the Retry-After of the response, as the draft asks. When a request
// is denied, a policy that would have let it pass has no t if that would be longer, nor if no
// wait can help: then there is no Retry-After, and a t would tell the client to come back.
//
// A policy is left out if no field can carry its Name or Unit: see [Outcome.Validate].
var Draft Writer = draft11{}

type draft11 struct{ partitions *partitions }

// Dialect tells package internal/dialect how the fields are merged.
func (draft11) Dialect() string { return "draft 11" }

const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
	// burst is the parameter for a capacity that differs from q.
	burst = "weir-burst"
)

func (w draft11) Write(h http.Header, policies []Outcome) {
	if len(policies) == 0 {
		return
	}
	var space [256]byte
	quotas := space[:0]
	for i := range policies {
		if p := &policies[i]; p.Validate() == nil {
			quotas = w.appendQuota(appendComma(quotas), p)
		}
	}
	w.write(h, policies, string(quotas))
}

// write sets both fields. The caller knows RateLimit-Policy.
func (w draft11) write(h http.Header, policies []Outcome, quotas string) {
	var space [256]byte
	limits := space[:0]
	retryAfter, _ := RetryAfter(policies) // 0 if no wait can help
	denied := deny(policies)
	for i := range policies {
		p := &policies[i]
		if p.Validate() != nil {
			continue
		}
		limits = appendString(appendComma(limits), p.Name)
		limits = appendParameter(limits, "r", int64(p.Decision.Remaining))
		if t, ok := effectiveWindow(&p.Decision, kindOf(p.Decision.Limit)); ok && (!denied || t <= retryAfter) {
			limits = appendParameter(limits, "t", t)
		}
		limits = w.partitions.appendTo(limits, p.Key)
	}
	if len(limits) == 0 {
		delete(h, rateLimit)
		delete(h, rateLimitPolicy)
		return
	}
	setBoth(h, new([2]string), string(limits), quotas)
}

// setBoth sets both fields. Their values take the given room.
func setBoth(h http.Header, room *[2]string, limits, quotas string) {
	room[0], room[1] = limits, quotas
	h[rateLimit], h[rateLimitPolicy] = room[0:1:1], room[1:2:2]
}

// appendQuota appends the description of a policy, as a member of a List.
func (w draft11) appendQuota(b []byte, p *Outcome) []byte {
	limit := p.Decision.Limit
	q, window := quota(limit)
	b = appendString(b, p.Name)
	b = appendParameter(b, "q", q)
	if p.Unit != "" {
		b = appendString(append(b, ";qu="...), p.Unit)
	}
	if window != 0 {
		b = appendParameter(b, "w", window)
	}
	return w.partitions.appendTo(appendBurst(b, limit, q), p.Key)
}

// kind is the part of a limit on which the effective window depends.
type kind struct {
	timeless bool // it is not known when units come back: of places and balances
	dated    bool
}

func kindOf(limit core.Limit) kind {
	_, holds := limit.(core.Places)
	traits := unexported.TraitsOf(limit)
	return kind{holds || traits.Prepaid, traits.Dated}
}

// effectiveWindow returns the seconds in which the client should use no more than the units left, or false if no wait can
// help, or if it is not known.
func effectiveWindow(d *core.Decision, of kind) (seconds int64, ok bool) {
	if of.timeless {
		return 0, false
	}
	if !d.Allowed {
		return secondsUp(wait(d)), d.RetryAfter != core.Never
	}
	if of.dated && d.NextAfter > 0 {
		return secondsUp(d.NextAfter), true
	}
	seconds = max(secondsUp(d.NextAfter), secondsFor(d.Remaining, d.Limit))
	return seconds, seconds > 0 || !of.dated // it is not known when an unused window of a calendar ends
}

// appendBurst appends the capacity of the limit if it differs from q.
func appendBurst(b []byte, limit core.Limit, q int64) []byte {
	capacity := clamp(int64(capacityOf(limit)))
	if capacity == q {
		return b
	}
	return appendParameter(b, burst, capacity)
}

// Prepare works out RateLimit-Policy once for responses about these policies. Package
// internal/dialect calls it.
func (w draft11) Prepare(policies []Outcome) Writer {
	if w.partitions != nil {
		return w
	}
	h := http.Header{}
	w.Write(h, policies)
	quotas := h.Get(rateLimitPolicy)
	prepared := &preparedDraft11{draft11: w, policies: slices.Clone(policies), quotas: quotas}
	if len(policies) != 1 || quotas == "" {
		return prepared
	}
	p := &policies[0]
	return &loneDraft11{preparedDraft11: prepared, kind: kindOf(p.Decision.Limit), left: string(appendString(nil, p.Name)) + ";r="}
}

type preparedDraft11 struct {
	draft11

	policies []Outcome
	quotas   string // of these policies
}

func (w *preparedDraft11) Write(h http.Header, policies []Outcome) {
	if !slices.EqualFunc(w.policies, policies, describedAlike) {
		w.draft11.Write(h, policies)
		return
	}
	if len(policies) != 0 {
		w.write(h, policies, w.quotas)
	}
}

func describedAlike(a, b Outcome) bool {
	return a.Name == b.Name && a.Unit == b.Unit && a.Decision.Limit == b.Decision.Limit
}

// loneDraft11 is prepared for one policy.
type loneDraft11 struct {
	*preparedDraft11

	kind kind
	left string // the field RateLimit up to Remaining
}

// WriteLone writes the decision of the policy. The values of the fields take the given room. Package internal/dialect calls it.
func (w *loneDraft11) WriteLone(h http.Header, d *core.Decision, room *[2]string) {
	if described := &w.policies[0]; d.Limit != described.Decision.Limit {
		w.Write(h, []Outcome{{Name: described.Name, Unit: described.Unit, Decision: *d}})
		return
	}
	var space [128]byte
	limits := appendInteger(append(space[:0], w.left...), int64(d.Remaining))
	if t, ok := effectiveWindow(d, w.kind); ok {
		limits = appendParameter(limits, "t", t)
	}
	setBoth(h, room, string(limits), w.quotas)
}

// leastSecret is the length of the shortest secret in bytes, and that of a partition key.
const leastSecret = 16

// DraftPartitioned returns [Draft] with the parameter pk, the partition key. It identifies the quota for a client that acts for several
// users, or from several addresses:
//
//	RateLimit-Policy: "burst";q=1;w=1;weir-burst=10;pk=:v5dJSr0QjeIijDWrwdIP/g==:
//	RateLimit: "burst";r=9;t=9;pk=:v5dJSr0QjeIijDWrwdIP/g==:
//
// The parameter is 16 bytes of an HMAC-SHA-256 of the key under the secret. It is the same for
// the same key on every server that has the secret. Without the secret the key cannot be found,
// not even by trying all addresses.
//
// All servers of a fleet need the same secret of at least 16 random bytes. Do not use the secret
// of [keyfuncs.Secret]. DraftPartitioned copies it, and panics if it is shorter.
//
// [keyfuncs.Secret]: https://pkg.go.dev/github.com/weir-go/ratelimit/keyfuncs#Secret
func DraftPartitioned(secret []byte) Writer {
	if len(secret) < leastSecret {
		panic(fmt.Sprintf("headers: partition keys: secret of %d bytes, want at least %d", len(secret), leastSecret))
	}
	return draft11{&partitions{slices.Clone(secret)}}
}

// partitions makes partition keys. A nil *partitions makes none.
type partitions struct{ secret []byte }

// appendTo appends the parameter pk for a key.
func (p *partitions) appendTo(b []byte, key string) []byte {
	if p == nil || key == "" {
		return b
	}
	mac := hmac.New(sha256.New, p.secret)
	mac.Write([]byte("ratelimit partition\x00"))
	mac.Write([]byte(key))
	var sum [sha256.Size]byte
	return appendBytes(append(b, ";pk="...), mac.Sum(sum[:0])[:leastSecret])
}
