// Package budgets has tests of how much of some things the source has: functions on the way of a call, exported names,
// questions about the kind of a limit, small packages, and words that make prose hard to read. Each number stands in
// testdata and may only fall.
package budgets
