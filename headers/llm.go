package headers

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// LLM writes the fields by which the APIs of language models tell their limits, in the words of OpenAI and of Anthropic, as their SDKs and tools read them:
//
//	x-ratelimit-limit-requests: 20                        anthropic-ratelimit-requests-limit: 20
//	x-ratelimit-remaining-requests: 19                    anthropic-ratelimit-requests-remaining: 19
//	x-ratelimit-reset-requests: 3s                        anthropic-ratelimit-requests-reset: 2026-07-01T12:00:03Z
//	x-ratelimit-limit-tokens: 2000                        anthropic-ratelimit-tokens-limit: 2000
//	…                                                     …
//
// They describe the tightest policy that counts requests, and the tightest with the Unit "tokens". Policies with the Units "input-tokens" and
// "output-tokens" have fields of Anthropic's alone; policies of other units, [core.Concurrent] limits and balances have none. Reset is when all of the limit is
// free again, as both services define it: OpenAI's is the time until then, rounded up to a millisecond, and Anthropic's the instant, rounded up to a second.
//
// On a denial there are two more fields, which the SDKs obey before all others:
//
//	retry-after-ms: 779
//	x-should-retry: false
//
// The first is the wait of Retry-After in milliseconds, rounded up. The second has an SDK give up at once, and tell its caller, where no wait can help or
// the wait is a minute or more: some versions retry such a request after a second, others sleep for hours.
var LLM Writer = llm{}

// longRetry is a wait after which SDKs are told not to retry, and so is each longer one.
const longRetry = time.Minute

type llm struct{}

// llmUnit is a unit of which there are fields.
type llmUnit struct {
	unit, name string
	both       bool // OpenAI has fields for it, too
}

var llmUnits = [...]llmUnit{
	{"requests", "Requests", true}, {"tokens", "Tokens", true}, {"input-tokens", "Input-Tokens", false}, {"output-tokens", "Output-Tokens", false},
}

// counts reports whether a policy counts the unit.
func (u *llmUnit) counts(p *Outcome) bool {
	return cmp.Or(p.Unit, "requests") == u.unit && !kindOf(p.Decision.Limit).timeless
}

// write writes the three fields of the unit.
func (u *llmUnit) write(h http.Header, field func(of, name string) string, limit, remaining, reset string) {
	h[field(u.name, "Limit")], h[field(u.name, "Remaining")], h[field(u.name, "Reset")] = []string{limit}, []string{remaining}, []string{reset}
}

const (
	retryAfterMs = "Retry-After-Ms"
	shouldRetry  = "X-Should-Retry"
)

// Write implements [Writer].
func (llm) Write(h http.Header, policies []Outcome) {
	if len(policies) == 0 {
		return
	}
	for _, name := range llmNames { // a limiter in front may have written them about fewer policies
		delete(h, name)
	}
	for _, of := range llmUnits {
		tight := tightest(slices.DeleteFunc(slices.Clone(policies), func(p Outcome) bool { return !of.counts(&p) }))
		if tight == nil {
			continue
		}
		d := &tight.Decision
		limit, remaining := strconv.Itoa(capacityOf(d.Limit)), strconv.Itoa(d.Remaining)
		full := time.Unix(epochUp(time.Now().Add(d.ResetAfter)), 0).UTC()
		of.write(h, anthropicField, limit, remaining, full.Format(time.RFC3339))
		if of.both {
			of.write(h, openAIField, limit, remaining, (time.Duration(millisecondsUp(d.ResetAfter)) * time.Millisecond).String())
		}
	}
	wait, curable := longestWait(policies)
	if curable {
		h[retryAfterMs] = []string{strconv.FormatInt(millisecondsUp(wait), 10)}
	}
	if deny(policies) && (!curable || wait >= longRetry) {
		h[shouldRetry] = []string{"false"}
	}
}

// llmNames are the names of all fields.
var llmNames = func() []string {
	h := http.Header{retryAfterMs: nil, shouldRetry: nil}
	for _, of := range llmUnits {
		of.write(h, anthropicField, "", "", "")
		if of.both {
			of.write(h, openAIField, "", "", "")
		}
	}
	return slices.Sorted(maps.Keys(h))
}()

func openAIField(of, name string) string    { return "X-Ratelimit-" + name + "-" + of }
func anthropicField(of, name string) string { return "Anthropic-Ratelimit-" + of + "-" + name }

// millisecondsUp returns a time in milliseconds, rounded up, and no more than a Duration can be.
func millisecondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return min(int64((d-1)/time.Millisecond)+1, math.MaxInt64/int64(time.Millisecond))
}
