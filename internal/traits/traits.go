// Package traits tells packages outside of core the properties of a limit's algorithm, from the row of the algorithm in core.
package traits

// Traits follow from the algorithm of a limit. Places and bans have none of them.
type Traits struct {
	// Delays says that admitted requests wait for their turn.
	Delays bool
	// Windowed says that the limit counts units per window. Others are buckets, which drain or refill evenly.
	Windowed bool
	// Dated says that a calendar cuts the windows, so that the units left have to last until the window ends.
	Dated bool
	// Reserves says that a check may reserve units for a time: see core.Check.
	Reserves bool
}

// Of returns the traits of a [core.Limit], which may be nil.
func Of(limit any) Traits {
	known, ok := limit.(interface{ Traits() Traits })
	if !ok {
		return Traits{}
	}
	return known.Traits()
}
