package headers_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/headers"
)

func TestJoinWritesWhatAllWrite(t *testing.T) {
	checkGolden(t, headers.Join(headers.Draft, headers.Legacy, headers.RateLimitedFor), []golden{
		{"allowed", policies(first), fields{
			"RateLimit-Policy":  `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":         `"a";r=9;t=9`,
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1",
		}},
		{"denied", policies(full), fields{
			"RateLimit-Policy":  `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":         `"a";r=0;t=1`,
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1",
			"X-Rate-Limited-For": "0.5",
		}},
	})
}

func TestJoinLetsTheLaterWriterWin(t *testing.T) {
	checkGolden(t, headers.Join(headers.Draft, headers.Draft7), []golden{{"allowed", policies(first), fields{
		"RateLimit-Policy": "1;w=1;weir-burst=10",
		"RateLimit":        "limit=10, remaining=9, reset=1",
	}}})
}

func TestJoinKeepsItsOwnListOfWriters(t *testing.T) {
	list := []headers.Writer{headers.Legacy, headers.RateLimitedFor}
	w := headers.Join(list...)
	list[0] = headers.None
	h := http.Header{}
	w.Write(h, policies(first))
	if h.Get("X-RateLimit-Limit") == "" {
		t.Error("changing the list changed the Writer")
	}
}

func TestJoinOfNothingIsNone(t *testing.T) {
	if w := headers.Join(); w != headers.None {
		t.Errorf("Join() is %T", w)
	}
}
