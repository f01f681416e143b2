package rls

import (
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"pgregory.net/rapid"

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

// account is what a model knows of a limit: the hits that it has, those that may be owed, and those that were charged.
type account struct {
	key              string
	has, owes, spent int
}

// TestRandomDebts: each request is answered, and its hits are charged, as a model says that counts them in a plain way.
func TestRandomDebts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return clock })))
		defer func() { _ = limiter.Close() }()
		s := New(limiter, Options{Now: func() time.Time { return clock }, Timeout: time.Minute})
		s.Use(configure(t, debts))
		accounts := []account{{"tokens", 100, 50, 0}, {"month", 1000, 1000, 0}, {"plain", 9, 0, 0}}
		for range rapid.IntRange(1, 20).Draw(r, "requests") {
			var of []*common.RateLimitDescriptor
			sums := make([]int, len(accounts))
			back := rapid.IntRange(0, 3).Draw(r, "gives back") == 0
			chosen := rapid.SliceOfN(rapid.IntRange(0, len(accounts)-1), 1, 4).Draw(r, "limits")
			for _, i := range chosen {
				n := rapid.SampledFrom([]int{1, 2, 5, 9, 40, 120, 800}).Draw(r, "hits")
				sums[i] += n
				of = append(of, hits(uint64(n), descriptor(accounts[i].key)))
				of[len(of)-1].IsNegativeHits = back
			}
			answer, err := s.ShouldRateLimit(r.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: of})
			if err != nil {
				r.Fatal(err)
			}
			over, forgiven := false, true // whether it is denied, and whether only limits with debt deny it
			for i, a := range accounts {
				if !back && sums[i] > max(0, a.has-a.spent) {
					over, forgiven = true, forgiven && a.owes > 0
				}
			}
			if got := answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT; got != over {
				r.Fatalf("%v hits of %+v: over is %t", sums, accounts, got)
			}
			for i := range accounts {
				switch a := &accounts[i]; {
				case back:
					a.spent = max(0, a.spent-sums[i])
				case !over || forgiven:
					a.spent = min(a.spent+sums[i], a.has+a.owes)
				}
			}
			for _, a := range accounts {
				looked, err := s.ShouldRateLimit(r.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{hits(0, descriptor(a.key))}})
				if err != nil {
					r.Fatal(err)
				}
				if got := int(looked.GetStatuses()[0].GetLimitRemaining()); got != max(0, a.has-a.spent) {
					r.Fatalf("%s has %d left, want %d of %+v", a.key, got, max(0, a.has-a.spent), a)
				}
			}
		}
	})
}
