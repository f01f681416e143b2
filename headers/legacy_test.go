package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestLegacyBytes(t *testing.T) {
	checkGolden(t, headers.Legacy, []golden{
		{"no policies", nil, fields{}},
		{"first", policies(first), fields{
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1",
		}},
		{"last", policies(last), fields{
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "10",
		}},
		{"denied: reset is Retry-After", policies(opened, full), fields{
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1",
		}},
		{"never", policies(never, closed), fields{
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "8", "X-RateLimit-Reset": "2",
		}},
	})
}

// bubble is the Unix time at which the clock of a synctest bubble starts.
const bubble = 946684800

func TestEpochResetIsNeverEarly(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin time.Duration // past a whole second
		d     core.Decision
		want  string
	}{
		{"nothing used", 0, fresh, "946684800"},
		{"whole seconds", 0, last, "946684810"},
		{"half a second", 0, full, "946684801"},
		{"half a second from 0.5", 500 * time.Millisecond, full, "946684801"},
		{"half a second from 0.500001", 500_001 * time.Microsecond, full, "946684802"},
		{"never", 0, never, "946684802"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				if now := time.Now().Unix(); now != bubble {
					t.Fatalf("the bubble starts at %d", now)
				}
				time.Sleep(c.begin)
				h := http.Header{}
				headers.LegacyEpoch.Write(h, policies(c.d))
				if got := h.Get("X-RateLimit-Reset"); got != c.want {
					t.Errorf("X-RateLimit-Reset %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestGitHubBytes(t *testing.T) {
	checkGolden(t, headers.GitHub, []golden{
		{"no policies", nil, fields{}},
		{"used and resource", policies(opened), fields{
			"x-ratelimit-limit":     "100",
			"x-ratelimit-remaining": "99",
			"x-ratelimit-reset":     "946684860",
			"x-ratelimit-used":      "1",
			"x-ratelimit-resource":  "a",
		}},
		{"name that no field can carry", []headers.Outcome{{Name: "a\nb", Decision: opened}}, fields{
			"x-ratelimit-limit":     "100",
			"x-ratelimit-remaining": "99",
			"x-ratelimit-reset":     "946684860",
			"x-ratelimit-used":      "1",
		}},
	})
}

func TestLegacyInsideOfGitHubLeavesNothingOfIt(t *testing.T) {
	checkGolden(t, headers.Join(headers.GitHub, headers.Legacy), []golden{{"allowed", policies(first), fields{
		"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1",
	}}})
}
