package policies

import (
	"flag"
	"os"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// TestMain runs fewer random examples than rapid does by itself. No goroutine is left behind when the tests are over.
func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); !given {
		_ = flag.Set("rapid.checks", "60") // given on the command line, it is parsed later
	}
	os.Exit(redistest.Run(m))
}
