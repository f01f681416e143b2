package core

// Leaky returns a leaky bucket that polices: a meter that holds capacity events
// and drains at the given rate. A request that would make it overflow is
// refused, and leaves it as it was.
//
// Capacity requests pass at once when the bucket is empty, then as many as drain.
// This is "the leaky bucket as a meter" of Jonathan S. Turner, New directions in
// communications (or which way to the information age?), IEEE Communications
// Magazine 24 (10), 1986, which ITU-T I.371 calls the continuous-state leaky
// bucket. It admits exactly what [TokenBucket] and [GCRA] admit for the same
// numbers; the three differ in what they keep in Redis.
//
//	Leaky(10, PerSecond(1)) // 10 at once, then one a second
func Leaky(capacity int, drain Rate) Limit { return newLimit(leaky, capacity, drain) }
