package simulation_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

// TestMain draws some hundred histories, and a tenth of them with the race detector: -rapid.checks=10000 looks closer.
func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); !given {
		histories := "400"
		if repeatable.Raced {
			histories = "40"
		}
		_ = flag.Set("rapid.checks", histories) // given on the command line, both are parsed later
		_ = flag.Set("rapid.steps", "50")
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // places are lost all the time
	os.Exit(m.Run())
}
