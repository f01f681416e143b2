package mistakes

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Keys that name the address of a proxy, and nothing that tells its clients apart, are never banned. Others are.
func TestKeysThatNameNothingButAProxyAreNeverBanned(t *testing.T) {
	user := keyfuncs.User(func(r *http.Request) string { return r.Header.Get("User") })
	trusting := keyfuncs.IP(keyfuncs.TrustedProxies("198.51.100.0/24"))
	for _, c := range []struct {
		by    keyfuncs.Func
		peer  string
		user  string
		never bool
	}{
		{keyfuncs.RemoteIP, "10.0.0.1:1", "", true},
		{keyfuncs.RemoteIP, "203.0.113.9:1", "", false},
		{keyfuncs.RemoteIP, "198.51.100.1:1", "", false}, // nobody has said that it is a proxy
		{keyfuncs.IP(keyfuncs.IPv4Prefix(24)), "10.0.0.1:1", "", true},
		{keyfuncs.IP(keyfuncs.IPv6Prefix(56)), "[fd00::1]:1", "", true},
		{keyfuncs.IP(keyfuncs.IPv6Prefix(56)), "[2001:db8::1]:1", "", false},
		{trusting, "198.51.100.1:1", "", true},
		{trusting, "203.0.113.9:1", "", false},
		{keyfuncs.Join(trusting, keyfuncs.Route), "198.51.100.1:1", "", true},
		{keyfuncs.Join(keyfuncs.Host, keyfuncs.Method, trusting, keyfuncs.Global), "198.51.100.1:1", "", true},
		{keyfuncs.Join(keyfuncs.Join(trusting, keyfuncs.Route), keyfuncs.Method), "198.51.100.1:1", "", true},
		{keyfuncs.Join(trusting, user), "198.51.100.1:1", "", true}, // of all who name no user
		{keyfuncs.Join(trusting, user), "198.51.100.1:1", "alice", false},
		{keyfuncs.Join(trusting, user), "198.51.100.1:1", "a|ip:198.51.100.1", false},
		{keyfuncs.Join(keyfuncs.RemoteIP, user), "10.0.0.1:1", "ip:10.0.0.1", false},
		{keyfuncs.Or(user, trusting), "198.51.100.1:1", "", true},
		{keyfuncs.Or(user, trusting), "198.51.100.1:1", "alice", false},
		{keyfuncs.Route, "10.0.0.1:1", "", false},
	} {
		var log bytes.Buffer
		p := NewPlacement(slog.New(slog.NewTextHandler(&log, nil)), Peer{})
		told := new(OwnProxy)
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("User", c.user)
		told.Watch()
		key, err := c.by(r.WithContext(telling{r.Context(), told}))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if never := p.NeverBanned(r, key, told.Told(), "policy"); never != c.never {
				t.Errorf("%s from %s: never banned: %t, want %t", key, c.peer, never, c.never)
			}
		}
		if lines := strings.Count(log.String(), "\n"); lines != map[bool]int{true: 1}[c.never] || strings.Contains(log.String(), "198.51.100") {
			t.Errorf("%s from %s: logged %q", key, c.peer, log.String())
		}
	}
}

// telling is a context whose OwnProxy is told.
type telling struct {
	context.Context //nolint:containedctx // it is one

	told *OwnProxy
}

func (t telling) Value(key any) any {
	if _, asked := key.(given.OwnProxyKey); asked && t.told.Watches() {
		return t.told
	}
	return t.Context.Value(key)
}
