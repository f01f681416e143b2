package rls

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const debts = `
domain: d
descriptors:
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 100, debt: 50}}
  - {key: month, rate_limit: {unit: hour, requests_per_unit: 1000, debt: 1000}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 10, debt: unlimited}}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: at once, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: concurrent}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5, debt: 5}}
  - {key: strict, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: q1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5, debt: 5}}
  - {key: q2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 9, debt: 9}}
`

// TestReportsAreChargedIntoDebt: a request asks with no hits whether anything is left, and tells at its end how many tokens it has used. The reports of
// requests that were in progress together are all charged.
func TestReportsAreChargedIntoDebt(t *testing.T) {
	for _, asReference := range []bool{false, true} {
		now := clock
		store := core.NewMemory(core.WithClock(func() time.Time { return now }))
		s := serveOn(t, store, Options{AsReference: asReference}, debts)
		walk(t, s,
			of("ok: ok 100", hits(0, descriptor("tokens"))), of("ok: ok 100", hits(0, descriptor("tokens"))),
			of("ok: ok 10", hits(90, descriptor("tokens"))),
			of("over: over 0", hits(40, descriptor("tokens"))), // 30 of them are debt
			of("over: over 0", hits(0, descriptor("tokens"))),
		)
		now = now.Add(time.Minute) // the next window pays
		walk(t, s, of("ok: ok 70", hits(0, descriptor("tokens"))), of("over: over 0", hits(500, descriptor("tokens"))))
		now = now.Add(time.Minute) // 50 are the most
		walk(t, s, of("ok: ok 50", hits(0, descriptor("tokens"))))

		walk(t, s, of("over: over 0", hits(70, descriptor("bucket"))))
		now = now.Add(time.Minute)
		walk(t, s, of("over: over 0", hits(0, descriptor("bucket")))) // 60 are paid, and nothing is left
		now = now.Add(10 * time.Second)
		walk(t, s, of("ok: ok 10", hits(0, descriptor("bucket"))))
	}
}

// TestDebtBesideOtherLimits: a request that limits with debt alone deny is charged to all of its limits, and one that another limit denies to none.
func TestDebtBesideOtherLimits(t *testing.T) {
	walk(t, serve(t, Options{}, debts),
		of("over: over 0 ok 880", hits(120, descriptor("tokens")), hits(120, descriptor("month"))),
		of("over: over 0 ok 879 ok 8", descriptor("tokens"), descriptor("month"), descriptor("plain")),
		of("over: over 0 over 0", hits(30, descriptor("tokens")), hits(900, descriptor("month"))),
	)
	walk(t, serve(t, Options{}, debts),
		of("over: over 100 over 9", hits(120, descriptor("tokens")), hits(10, descriptor("plain"))),
		of("ok: ok 100 ok 9", hits(0, descriptor("tokens")), hits(0, descriptor("plain"))),
	)
	walk(t, serve(t, Options{}, debts), // places are not taken by a request that is denied, and given back by one that is charged
		of("ok: ok 5", hits(4, descriptor("at once"))),
		of("over: ok 5 over 0", descriptor("at once"), hits(120, descriptor("tokens"))),
		of("over: ok 6 over 0", refund(1, descriptor("at once")), descriptor("tokens")),
		of("ok: ok 6", hits(0, descriptor("at once"))),
	)
	walk(t, serve(t, Options{}, debts), // a limit in debt gets back what is given back
		of("over: over 0", hits(120, descriptor("tokens"))),
		of("ok: ok 10", refund(30, descriptor("tokens"))),
	)
}

// TestDebtInShadow: a limit in shadow mode has its debt whether the request passes or not, and one without debt is charged what fits.
func TestDebtInShadow(t *testing.T) {
	walk(t, serve(t, Options{}, debts),
		of("ok: ok 0 ok 2 ok 2", hits(7, descriptor("shadow")), hits(3, descriptor("strict")), hits(7, descriptor("plain"))),
		of("over: ok 0 ok 2 over 2", descriptor("shadow"), hits(3, descriptor("strict")), hits(7, descriptor("plain"))),
		of("ok: ok 1", refund(4, descriptor("shadow"))), // 8 were used
		of("ok: ok 2", hits(0, descriptor("strict"))),
	)
}

// TestDebtOfQuotas: a request that some quotas pass is charged to these, and one that all deny to all.
func TestDebtOfQuotas(t *testing.T) {
	walk(t, serve(t, Options{}, debts),
		of("ok: over 5 ok 2", hits(7, descriptor("q1")), hits(7, descriptor("q2"))),
		of("over: over 0 over 0", hits(7, descriptor("q1")), hits(7, descriptor("q2"))),
		of("ok: ok 1 ok 1", refund(3, descriptor("q1")), refund(6, descriptor("q2"))),
	)
}
