package redisstore

import (
	"flag"
	"os"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// TestMain has the race detector look on at a third of the random examples that rapid draws by itself, which make test-latest draws.
func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); !given && repeatable.Raced {
		_ = flag.Set("rapid.checks", "33") // given on the command line, it is parsed later
	}
	os.Exit(redistest.Run(m))
}
