package headers_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// The units of a balance never come back by themselves: no field says when.
func TestNoResetIsToldOfBalances(t *testing.T) {
	admitted := core.Decision{Allowed: true, Limit: core.Balance(), Remaining: 480}
	denied := core.Decision{Limit: core.Balance(), RetryAfter: core.Never}
	for _, w := range []headers.Writer{headers.Legacy, headers.LegacyEpoch, headers.GitHub, headers.Draft6, headers.Draft7} {
		for name, d := range map[string]core.Decision{"admitted": admitted, "denied": denied} {
			h := http.Header{}
			w.Write(h, policies(d))
			if len(h) != 0 {
				t.Errorf("%T, %s: %v, want nothing", w, name, h)
			}
		}
	}
	for name, c := range map[string]struct {
		writer headers.Writer
		list   []headers.Outcome
		want   http.Header
	}{
		"draft": {headers.Draft, policies(admitted), http.Header{
			"Ratelimit": {`"a";r=480`}, "Ratelimit-Policy": {`"a";q=999999999999999`},
		}},
		"draft, denied": {headers.Draft, policies(denied), http.Header{
			"Ratelimit": {`"a";r=0`}, "Ratelimit-Policy": {`"a";q=999999999999999`},
		}},
		"legacy, beside a rate": {headers.Legacy, policies(admitted, first), http.Header{
			"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"9"}, "X-Ratelimit-Reset": {"1"},
		}},
		"for language models": {headers.LLM, policies(denied), http.Header{"X-Should-Retry": {"false"}}},
	} {
		h := http.Header{}
		c.writer.Write(h, c.list)
		maps.DeleteFunc(h, func(_ string, values []string) bool { return len(values) == 0 || values[0] == "" })
		if !maps.EqualFunc(h, c.want, func(a, b []string) bool { return len(a) == 1 && a[0] == b[0] }) {
			t.Errorf("%s: %v, want %v", name, h, c.want)
		}
	}
}
