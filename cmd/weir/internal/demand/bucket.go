package demand

// bucket is a leaky bucket without a brim, for each rate. It keeps, as GCRA does, the instant at which the bucket will be empty.
type bucket struct {
	empty [RateCount]int64  // microseconds since 1970
	need  [RateCount]uint32 // the highest level so far, in events, rounded up; at most Most
}

// fill adds an event.
func (b *bucket) fill(now int64) {
	for r := range RateCount {
		interval := intervals[r]
		empty := max(b.empty[r], now) + interval
		if empty-now > int64(b.need[r])*interval {
			empty = b.rise(r, now, empty)
		}
		b.empty[r] = empty
	}
}

// rise notes a new highest level. It returns when the bucket will be empty: units above Most do not count.
func (b *bucket) rise(r int, now, empty int64) int64 {
	interval := intervals[r]
	level := (empty - now + interval - 1) / interval
	if level > Most {
		b.need[r] = Most
		return now + Most*interval
	}
	b.need[r] = uint32(level)
	return empty
}
