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
	if r := check.Receipt(); r.Charge() != charge || r.Holder() != holder {
		t.Errorf("the receipt is of %+v by %v, want %+v by %v", r.Charge(), r.Holder(), charge, holder)
	}
}
