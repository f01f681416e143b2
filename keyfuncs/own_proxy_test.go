package keyfuncs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// proxies remembers the keys of own proxies.
type proxies []string

func (p *proxies) OwnProxy(key string) { *p = append(*p, key) }

// IP tells that it has found nothing but a proxy, and never that of a client.
func TestIPTellsOfOwnProxies(t *testing.T) {
	byHeader := map[string]keyfuncs.Func{
		"X-Forwarded-For": keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8", "198.51.100.1")),
		"Forwarded":       keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8", "198.51.100.1")),
		"X-Real-Ip":       keyfuncs.IP(keyfuncs.TrustedHeader("X-Real-Ip", "10.0.0.0/8", "198.51.100.1")),
	}
	for header, by := range byHeader {
		for _, c := range []struct {
			peer, value string
			own         bool
		}{
			{"198.51.100.1:1", "", true},
			{"198.51.100.1:1", "10.0.0.7", true},
			{"198.51.100.1:1", "garbage", true},
			{"198.51.100.1:1", "203.0.113.9", false},
			{"203.0.113.9:1", "10.0.0.7", false},
			{"203.0.113.9:1", "", false},
		} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if r.RemoteAddr = c.peer; c.value != "" {
				value := c.value
				if header == "Forwarded" {
					value = "for=" + value
				}
				r.Header.Set(header, value)
			}
			var told proxies
			key, _ := by(r.WithContext(context.WithValue(r.Context(), given.OwnProxyKey{}, &told)))
			if own := len(told) == 1 && told[0] == key; own != c.own || len(told) > 1 {
				t.Errorf("%s: %q from %s: told %q of %q", header, c.value, c.peer, told, key)
			}
		}
	}
}
