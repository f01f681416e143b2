package dialect_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/dialect"
)

func TestWaitAsked(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":                        {http.Header{}, 0},
		"seconds":                        {http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"a date":                         {http.Header{"Retry-After": {"Wed, 01 Jul 2026 12:00:09 GMT"}}, 9 * time.Second},
		"a date that has passed":         {http.Header{"Retry-After": {"Wed, 01 Jul 2026 11:00:00 GMT"}}, 0},
		"a date by the server's clock":   {http.Header{"Retry-After": {"Wed, 01 Jul 2026 13:00:09 GMT"}, "Date": {"Wed, 01 Jul 2026 13:00:00 GMT"}}, 9 * time.Second},
		"negative seconds":               {http.Header{"Retry-After": {"-7"}}, 0},
		"garbage, and RateLimit":         {http.Header{"Retry-After": {"soon"}, "Ratelimit": {`"a";r=0;t=5`}}, 5 * time.Second},
		"Retry-After before RateLimit":   {http.Header{"Retry-After": {"7"}, "Ratelimit": {`"a";r=0;t=5`}}, 7 * time.Second},
		"the longest of what is used up": {http.Header{"Ratelimit": {`"a";r=0;t=5, "b";r=3;t=60`, `c;pk=:YQ==:;r=0;t=9`}}, 9 * time.Second},
		"nothing left, in other digits":  {http.Header{"Ratelimit": {`"a";r=00;t=5, "b";r=-0;t=7, "c";r=0.0;t=9`}}, 7 * time.Second},
		"a Date and a Display String":    {http.Header{"Ratelimit": {`"a";at=@1659578233;r=0;said=%"f%c3%bc";t=5`}}, 5 * time.Second},
		"a malformed RateLimit":          {http.Header{"Ratelimit": {`"a;r=0;t=5`}}, 0},
		"milliseconds before seconds":    {http.Header{"Retry-After-Ms": {"779"}, "Retry-After": {"1"}}, 779 * time.Millisecond},
		"a part of a millisecond":        {http.Header{"Retry-After-Ms": {" 0.25 "}}, 250 * time.Microsecond},
		"no milliseconds, and seconds":   {http.Header{"Retry-After-Ms": {"0"}, "Retry-After": {"7"}}, 7 * time.Second},
		"malformed milliseconds":         {http.Header{"Retry-After-Ms": {"1e3"}, "Retry-After": {"7"}}, 7 * time.Second},
		"negative milliseconds":          {http.Header{"Retry-After-Ms": {"-5"}}, 0},
		"two dots":                       {http.Header{"Retry-After-Ms": {"1.2.3"}}, 0},
		"more milliseconds than fit":     {http.Header{"Retry-After-Ms": {"99999999999999999999"}}, 4611686018427387904},
		"OpenAI's counts": {http.Header{
			"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"8.64s"}, "X-Ratelimit-Remaining-Tokens": {"5"}, "X-Ratelimit-Reset-Tokens": {"6m0s"},
		}, 8640 * time.Millisecond},
		"the longest of OpenAI's counts": {http.Header{
			"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"17ms"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"6m0s"},
		}, 6 * time.Minute},
		"whole seconds, as Azure's":  {http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"12"}}, 12 * time.Second},
		"a reset that has no sense":  {http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"-6m"}}, 0},
		"a count without a reset":    {http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}}, 0},
		"Retry-After before a count": {http.Header{"Retry-After": {"7"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}}, 7 * time.Second},
		"Anthropic's counts":         {http.Header{"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-07-01T12:00:09Z"}}, 9 * time.Second},
		"by the server's clock": {http.Header{
			"Date": {"Wed, 01 Jul 2026 13:00:00 GMT"}, "Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Input-Tokens-Reset": {"2026-07-01T13:00:09Z"},
		}, 9 * time.Second},
		"an instant that has passed": {http.Header{"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-07-01T11:00:00Z"}}, 0},
		"more digits than there are": {http.Header{"Retry-After": {"99999999999999999999"}}, 9223372036 * time.Second},
	} {
		if got := dialect.WaitAsked(test.header, now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
