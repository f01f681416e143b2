package call_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// A receipt tells what a charge was, and whose.
func TestReceiptsTellTheCharge(t *testing.T) {
	charge, holder := exact.Charge{At: 1, Used: 2, Order: 3}, exact.Holder{4, 5}
	check := call.Check{Spec: exact.Zero, Charged: charge, Holder: holder}
	if got, want := check.Receipt(), (call.Receipt{At: 1, Note: [4]int64{2, 3, 4, 5}}); got != want {
		t.Errorf("the receipt is %+v, want %+v", got, want)
	}
}
