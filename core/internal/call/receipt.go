package call

import "github.com/weir-go/ratelimit/core/internal/exact"

// Receipt is a charge as a store needs it for a settlement. Users carry it; its numbers mean nothing to them.
type Receipt struct {
	At   int64
	Note [4]int64
}

// Receipt returns the receipt for a check that has been decided.
func (c *Check) Receipt() Receipt {
	return Receipt{At: c.Charged.At, Note: [4]int64{c.Charged.Used, c.Charged.Order, c.Holder[0], c.Holder[1]}}
}

// Charge returns the charge.
func (r Receipt) Charge() exact.Charge {
	return exact.Charge{At: r.At, Used: r.Note[0], Order: r.Note[1]}
}

// Holder returns the holder of places, or of a reservation for a time.
func (r Receipt) Holder() exact.Holder { return exact.Holder{r.Note[2], r.Note[3]} }
