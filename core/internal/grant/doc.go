// Package grant keeps units that a store has charged ahead of time, and spends them without asking the store
// again.
//
// A [Set] asks its store to charge a number of units of a key at once: a grant. Until the grant lapses, calls of this
// process spend its units: each spending is a look into a table, an atomic subtraction and a look at the clock. When half of
// a grant is spent, the next one is asked for in the background. What is left of a grant when it lapses is
// returned to the store. [TermsOf] says how long a grant lasts, and why no more passes than the user tolerates.
//
// The words, which are also those of the metrics: units are granted, and then spent, returned or lapsed. What could not be
// returned has lapsed: it stays charged, and nobody spends it.
//
// The package knows neither calls nor a store: [Config] says how the store is asked. Package lease, which has a name alike,
// renews the leases of places and has nothing to do with this one.
package grant
