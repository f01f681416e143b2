// Package lease keeps units that a store has charged ahead of time, and spends them without asking the store
// again.
//
// A [Set] asks its store to charge a number of units of a key at once: a grant. Until the grant lapses, calls of this
// process spend its units: each spending is a look into a table, an atomic subtraction and a look at the clock. When half
// of a grant is spent, the next one is asked for in the background. When a grant lapses, its unspent units are returned
// to the store. [TermsOf] says how long a grant lasts, and why no more passes than the user tolerates.
//
// The metrics use the same words: units are granted, and then spent, returned or lapsed. Units that could not be returned
// have lapsed: they stay charged, and no call spends them.
//
// The package knows neither calls nor a store: the functions of [Config] ask the store. The leases of places, which package
// wait renews, have nothing to do with it.
package lease
