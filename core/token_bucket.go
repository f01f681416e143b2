package core

// TokenBucket returns a bucket that holds capacity tokens, starts full and is
// refilled at the given rate. Each unit of cost takes a token; a request that
// does not find enough of them is refused and takes none.
//
// It admits exactly what [Leaky] admits, seen from the other side: the tokens
// that are there are the room that is left. In Redis the tokens and the instant
// of the last refill are kept. See ATM Forum and IETF usage, for example
// RFC 2697, section 3.
//
//	TokenBucket(100, PerMinute(20)) // 100 at once, then one every 3 seconds
func TokenBucket(capacity int, refill Rate) Limit { return newLimit(tokenBucket, capacity, refill) }
