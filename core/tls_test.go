package core_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// pingWork is the environment variable that makes this test binary open the URL in it
// and ping: the system's authorities are read once in a process.
const pingWork = "RATELIMIT_TEST_PING"

// bePinging opens a URL and exits with 0 when it has been answered.
func bePinging(url string) int {
	limiter, err := core.Open(url, core.WithBudget(patient))
	if err != nil {
		return fail(err)
	}
	defer limiter.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := limiter.Ping(ctx); err != nil {
		return fail(err)
	}
	if _, err := limiter.Allow(ctx, "key", core.Leaky(5, core.PerSecond(1))); err != nil {
		return fail(err)
	}
	return 0
}

// A client trusts a server whose certificate a private authority has issued only if it
// knows the authority.
func TestPrivateAuthority(t *testing.T) {
	server := redistest.StartTLS(t)

	t.Run("Open does not know it", func(t *testing.T) {
		limiter, err := core.Open(server.TLSURL())
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		if err := limiter.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "x509") {
			t.Errorf("%v, want an error of the certificate", err)
		}
	})

	t.Run("SSL_CERT_FILE names it", func(t *testing.T) {
		if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
			t.Skip("this system has its own store of authorities")
		}
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), pingWork+"="+server.TLSURL(), "SSL_CERT_FILE="+server.Authority())
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})

	client := redis.NewClient(&redis.Options{
		Addr: server.TLSAddr(), TLSConfig: server.Trusted(t), MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })

	t.Run("a client's RootCAs hold it", func(t *testing.T) {
		if err := useEverything(t.Context(), client); err != nil {
			t.Error(err)
		}
	})
}
