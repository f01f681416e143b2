package call_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// A receipt tells what a charge was, and whose. Of places it tells no usage, which changes all the time.
func TestReceiptsTellTheCharge(t *testing.T) {
	charge, holder := exact.Charge{At: 1, Used: 2, Order: 3}, exact.Holder{4, 5}
	for algorithm, want := range map[exact.Algorithm]call.Receipt{
		exact.Leaky: {At: 1, Note: [4]int64{2, 3, 4, 5}}, exact.Concurrent: {At: 1, Note: [4]int64{0, 0, 4, 5}},
	} {
		spec := exact.SpecOf(exact.Params{Algorithm: algorithm, Capacity: 10, Events: 10, Period: time.Second})
		check := call.Check{Spec: spec, Charged: charge, Holder: holder}
		if got := check.Receipt(); got != want {
			t.Errorf("under %s the receipt is %+v, want %+v", algorithm, got, want)
		}
	}
}
