package guardtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The example passes, without the route in front of a mux.
func TestExample(t *testing.T) {
	guardtest.Run(t, guardtest.Adapter[middleware]{FromGuard: limit, Serve: buildSite, Without: guardtest.RouteAround})
}
