package simulation_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"
)

// TestMain draws some hundred histories: -rapid.checks=10000 looks closer.
func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); !given {
		_ = flag.Set("rapid.checks", "400") // given on the command line, both are parsed later
		_ = flag.Set("rapid.steps", "50")
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // places are lost all the time
	os.Exit(m.Run())
}
