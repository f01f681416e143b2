package faults_test

import (
	"flag"
	"os"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// TestMain runs more tests at once than there are processors: most of the time they
// wait for something to fail or to come back.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // given on the command line, it is parsed later
	if work := os.Getenv(childWork); work != "" {
		os.Exit(beChild(work))
	}
	if work := os.Getenv(permitWork); work != "" {
		os.Exit(bePermitChild(work))
	}
	if work := os.Getenv(leaseWork); work != "" {
		os.Exit(beLeasingChild(work))
	}
	if work := os.Getenv(reserveWork); work != "" {
		os.Exit(beReserving(work))
	}
	os.Exit(redistest.Run(m))
}
