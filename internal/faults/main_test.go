package faults_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// TestMain runs more tests at once than there are processors: most of the time they
// wait for something to fail or to come back.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // given on the command line, it is parsed later
	if work := os.Getenv(childWork); work != "" {
		os.Exit(beChild(work))
	}
	code := redistest.Run(m)
	if err := leaked(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leaked returns an error if goroutines stay for longer than any client's timeouts.
func leaked() error {
	var err error
	for deadline := time.Now().Add(2 * tooLong); time.Now().Before(deadline); {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}
