package core

// GCRA returns the generic cell rate algorithm in its virtual-scheduling form:
// requests are expected at the given rate, each moves the theoretical arrival
// time of the next one, and up to burst of them may come ahead of it.
//
// It admits exactly what [Leaky] admits, and keeps a single instant, so it is the
// smallest state in Redis: a string. When the server's clock steps back, the
// step counts as used, up to the burst, since an instant alone does not tell when
// it was written. See ITU-T I.371 and the ATM Forum's Traffic Management
// Specification 4.0, section 4.4.2.
//
//	GCRA(10, PerSecond(5)) // 10 at once, then one every 200 ms
func GCRA(burst int, rate Rate) Limit { return newLimit(gcra, burst, rate) }
