package storetest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// shareable are the algorithms with limits that tenants can share.
var shareable = []string{"leaky", "token-bucket"}

// sharing is the laws of shares that tenants have of a cap.
var sharing = []law{
	{"a cap of tenants is charged as it would be alone", shareable, capIsUntouched},
	{"a tenant has the share of the exact model", shareable, shareIsExact},
	{"a share passes at RetryAfter and not two ticks before, and a denial changes nothing", shareable, honestShare},
	{"tenants get the max-min share of the rate", []string{"leaky"}, maxMinShares},
	{"a settlement corrects the cap and the share", shareable, settledShare},
	{"a settlement gives back to a share the part that has not drained", shareable, settledLater},
	{"shares are kept apart by tenant, cap and key, and not by weight", shareable, sharesApart},
	{"a cap that is reset, or has new numbers, lets all tenants begin anew", shareable, sharesBeginAnew},
	{"shadows of shares count apart", shareable, shadowShares},
	{"shares without sense are errors that change nothing", shareable, sharesWithoutSense},
}

// drawShared draws a limit that can be shared.
func drawShared(t *rapid.T, algorithm string) core.Quota {
	return rapid.Custom(func(t *rapid.T) core.Quota { return drawLimit(t, algorithm) }).
		Filter(func(l core.Quota) bool {
			return core.FairShare(core.Check{Key: "key", Limit: l}, "tenant", 1)[1].Limit.Validate() == nil
		}).Draw(t, "cap")
}

// shared returns the checks of a tenant.
func shared(key string, l core.Limit, tenant string, cost int) []core.Check {
	return core.FairShare(core.Check{Key: key, Limit: l, Cost: cost}, tenant, 1)
}

// drawTenant draws a call of one of three tenants, which have the weights 1 to 3. It also returns the tenant's name and weight.
func drawTenant(t *rapid.T, key string, l core.Limit) (checks []core.Check, tenant string, weight int) {
	weight = rapid.IntRange(1, 3).Draw(t, "tenant")
	tenant = fmt.Sprint("tenant ", weight)
	c := core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost")}
	if rapid.IntRange(0, 3).Draw(t, "with headroom") == 0 {
		c.Headroom = drawHeadroom(t, c)
	}
	return core.FairShare(c, tenant, weight), tenant, weight
}

func allowed(decisions []core.Decision) bool {
	_, denied := core.Denied(decisions)
	return !denied
}

func capIsUntouched(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key, plain := drawShared(t, s.algorithm), s.key(), s.key()
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			if rapid.IntRange(0, 4).Draw(t, "without a tenant") == 0 {
				cost := drawCost(t, l, "cost")
				if got, want := s.allow(t, key, l, cost), s.allow(t, plain, l, cost); got != want {
					t.Fatalf("%d without a tenant: %+v, want %+v", cost, answerOf(got), answerOf(want))
				}
				continue
			}
			checks, _, _ := drawTenant(t, key, l)
			alone := checks[0]
			alone.Key, alone.Mode = plain, core.Condition
			want := s.peekAt(t, 0, alone)[0]
			d := s.allowAll(t, checks...)
			if d[0].Allowed != want.Allowed || d[0].RetryAfter != want.RetryAfter {
				t.Fatalf("%s: %+v, want %+v", callString(checks), answerOf(d[0]), answerOf(want))
			}
			if allowed(d) {
				want = s.allow(t, plain, l, alone.Cost)
			} else {
				want = s.peek(t, plain, l)
			}
			if d[0].Remaining != want.Remaining || d[0].ResetAfter != want.ResetAfter {
				t.Fatalf("%s: %+v, want %+v", callString(checks), answerOf(d[0]), answerOf(want))
			}
			s.wait(drawWait(t, d[rapid.IntRange(0, 1).Draw(t, "after")]))
		}
		s.expectTwins(t, l, key, plain)
	})
}

func shareIsExact(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawShared(t, s.algorithm), s.key()
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		model := newPool(l)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			checks, tenant, weight := drawTenant(t, key, l)
			model.drain(s.clock.now.Load())
			least, most := model.room(tenant, weight, checks[0].Headroom)
			d, cost := s.allowAll(t, checks...), new(big.Rat).SetInt64(int64(checks[0].Cost))
			if d[1].Allowed && cost.Cmp(most) > 0 || !d[1].Allowed && cost.Cmp(least) <= 0 {
				t.Fatalf("%s: allowed %t, and there is room for %s to %s", callString(checks), d[1].Allowed, least.FloatString(6), most.FloatString(6))
			}
			if d[1].Remaining < 0 || d[1].Remaining > l.Capacity() || d[1].Remaining > d[0].Remaining {
				t.Fatalf("%s: %d remain, and %d of the cap", callString(checks), d[1].Remaining, d[0].Remaining)
			}
			if allowed(d) {
				model.charge(tenant, checks[0].Cost)
			}
			wait := drawWait(t, d[rapid.IntRange(0, 1).Draw(t, "after")]) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait"))
			if s.clock.now.Load()+wait.Microseconds() < early {
				s.wait(wait)
			}
		}
	})
}

func honestShare(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawShared(t, s.algorithm), s.key()
		for range rapid.IntRange(1, 20).Draw(t, "calls before") {
			checks, _, _ := drawTenant(t, key, l)
			s.wait(drawWait(t, s.allowAll(t, checks...)[1]) / 7)
		}
		for range 6 {
			checks, _, _ := drawTenant(t, key, l)
			before := s.peekAt(t, 0, checks...)
			d := s.allowAll(t, checks...)
			if allowed(d) {
				continue
			}
			if after := s.peekAt(t, 0, checks...); !slices.Equal(before, after) {
				t.Fatalf("%s was denied, and has changed %v to %v", callString(checks), before, after)
			}
			retry := max(d[0].RetryAfter, d[1].RetryAfter)
			if retry == core.Never {
				if c := checks[0]; c.Headroom <= l.Capacity()-c.Cost {
					t.Fatalf("%s: never", callString(checks))
				}
				continue
			}
			s.wait(max(0, retry-2*tick(l)))
			if early := s.peekAt(t, 0, checks...); allowed(early) {
				t.Fatalf("%s passes two ticks before its RetryAfter of %v: %+v", callString(checks), retry, early)
			}
			s.wait(min(retry, 2*tick(l)))
			if late := s.allowAll(t, checks...); !allowed(late) {
				t.Fatalf("%s, at its RetryAfter of %v: %+v", callString(checks), retry, late)
			}
		}
	})
}

// demand is a tenant that asks at a rate, evenly but for some jitter.
type demand struct {
	rate   float64 // events a second
	weight int
	cost   int

	next            int64 // microseconds
	asked, admitted int
}

// run has tenants ask for some seconds, and counts the admitted units after the first fifth of these.
func (s *stand) run(t *testing.T, key string, l core.Limit, seconds int, tenants []*demand) {
	random := repeatable.Random(t)
	begin := s.clock.now.Load()
	end, counted := begin+int64(seconds)*1e6, begin+int64(seconds)*1e6/5
	for _, d := range tenants {
		d.next = begin + random.Int64N(1+int64(float64(d.cost)*1e6/d.rate))
	}
	for {
		i := 0
		for j := range tenants {
			if tenants[j].next < tenants[i].next {
				i = j
			}
		}
		d := tenants[i]
		if d.next >= end {
			return
		}
		s.clock.now.Store(max(d.next, s.clock.now.Load()))
		checks := core.FairShare(core.Check{Key: key, Limit: l, Cost: d.cost}, strconv.Itoa(i), d.weight)
		if ok := allowed(s.allowAll(t, checks...)); d.next >= counted {
			d.asked += d.cost
			if ok {
				d.admitted += d.cost
			}
		}
		interval := float64(d.cost) * 1e6 / d.rate
		d.next += int64(interval * (0.9 + 0.2*random.Float64()))
	}
}

// A tenant that demands less than its max-min share loses no more than one unit in 1,000. The others get their shares to within 3 %, so
// that Jain's index is 0.99 at least. Together they get the whole rate, however many they are.
func maxMinShares(t *testing.T, s *stand) {
	if examples() < 5 {
		t.Skip("it takes 85,000 calls, and few examples are wanted")
	}
	few := examples() < 10
	const rate, seconds = 50, 60
	greedy := func(weight int) *demand { return &demand{rate: 3 * rate, weight: weight, cost: 1} }
	modest := func(part float64) *demand { return &demand{rate: rate * part, weight: 1, cost: 1} }
	for name, tenants := range map[string][]*demand{
		"alone":                   {greedy(1)},
		"two that are greedy":     {greedy(1), {rate: rate, weight: 1, cost: 1}},
		"one modest":              {greedy(1), modest(0.2)},
		"five modest, two greedy": {modest(0.03), modest(0.03), modest(0.05), modest(0.08), modest(0.1), greedy(1), greedy(1)},
		"weights of 3 and 1":      {greedy(3), greedy(1)},
		"dear and cheap calls":    {{rate: 2 * rate, weight: 1, cost: 7}, greedy(1), modest(0.25)},
	} {
		if few && name != "weights of 3 and 1" && name != "dear and cheap calls" {
			continue // these two have all kinds of tenants, and a quarter of the calls
		}
		t.Run(name, func(t *testing.T) {
			key := s.key()
			capacity := 2 * rate
			for _, d := range tenants {
				capacity = max(capacity, 10*rate*min(1, d.cost-1)) // a tenant may hold many times the cost of a call
			}
			l := core.Leaky(capacity, core.PerSecond(rate))
			s.run(t, key, l, seconds, tenants)
			var demands, weights []float64
			for _, d := range tenants {
				demands, weights = append(demands, d.rate), append(weights, float64(d.weight))
			}
			levels := waterLevels(rate, demands, weights)
			sum, squares, total, count := 0.0, 0.0, 0.0, 0.0
			for i, d := range tenants {
				total += float64(d.admitted)
				if demands[i] <= levels[i] {
					if lost := d.asked - d.admitted; lost*1000 > d.asked {
						t.Errorf("tenant %d demands %v of its share, and loses %d of %d", i, demands[i], lost, d.asked)
					}
					continue
				}
				got := float64(d.admitted) / (seconds * 0.8)
				if math.Abs(got-levels[i]) > 0.03*levels[i] {
					t.Errorf("tenant %d gets %.2f/s, want %.2f", i, got, levels[i])
				}
				part := got / weights[i]
				sum, squares, count = sum+part, squares+part*part, count+1
			}
			if jain := sum * sum / (count * squares); jain < 0.99 {
				t.Errorf("Jain's index of the greedy tenants is %.4f", jain)
			}
			if total < 0.99*rate*seconds*0.8 {
				t.Errorf("all tenants get %v, want %v", total, rate*seconds*0.8)
			}
		})
	}
}

// expectRoom wants a tenant of two keys to have the same room now. The instant at which its units lapse is not compared.
func (s *stand) expectRoom(t *rapid.T, l core.Limit, one, other, tenant string) {
	t.Helper()
	got, want := s.peekAt(t, 0, shared(one, l, tenant, 1)...), s.peekAt(t, 0, shared(other, l, tenant, 1)...)
	if answerOf(got[0]) != answerOf(want[0]) || got[1].Remaining != want[1].Remaining || got[1].Allowed != want[1].Allowed {
		t.Fatalf("%s: %+v and %+v, want %+v and %+v", tenant, answerOf(got[0]), answerOf(got[1]), answerOf(want[0]), answerOf(want[1]))
	}
}

// expectShares wants tenants of two keys to get the same answers.
func (s *stand) expectShares(t *rapid.T, l core.Limit, one, other string, tenants ...string) {
	t.Helper()
	for _, tenant := range tenants {
		got, want := s.peekAt(t, 0, shared(one, l, tenant, 1)...), s.peekAt(t, 0, shared(other, l, tenant, 1)...)
		if answerOf(got[0]) != answerOf(want[0]) || answerOf(got[1]) != answerOf(want[1]) {
			t.Fatalf("%s: %+v and %+v, want %+v and %+v", tenant, answerOf(got[0]), answerOf(got[1]), answerOf(want[0]), answerOf(want[1]))
		}
	}
}

func settledShare(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, settled, once := drawShared(t, s.algorithm), s.key(), s.key()
		for range rapid.IntRange(0, 5).Draw(t, "calls before") {
			cost, tenant := drawCost(t, l, "cost before"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant before")
			d := s.allowAll(t, shared(settled, l, tenant, cost)...)
			s.allowAll(t, shared(once, l, tenant, cost)...)
			s.wait(drawWait(t, d[1]) / 3)
		}
		most := s.peekAt(t, 0, shared(settled, l, "a", 1)...)[1].Remaining
		if most == 0 {
			return
		}
		reserved, cost := rapid.IntRange(1, most).Draw(t, "reserved"), rapid.IntRange(0, most).Draw(t, "real cost")
		r := s.reserve(t, shared(settled, l, "a", reserved)...)
		if !r.Allowed() {
			t.Fatalf("%d of %d are denied", reserved, most)
		}
		if cost > 0 {
			s.allowAll(t, shared(once, l, "a", cost)...)
		}
		if rapid.Bool().Draw(t, "cancel") && cost == 0 {
			if err := r.Cancel(tContext(t)); err != nil {
				t.Fatal(err)
			}
		} else {
			settleAs(t, r, cost, cost)
		}
		s.expectRoom(t, l, settled, once, "a")
		s.expectShares(t, l, settled, once, "b")
		s.wait(drawWait(t, r.Decisions()[1]) / 2)
		s.expectShares(t, l, settled, once, "b")
	})
}

func settledLater(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLimit(s.algorithm, 1000, core.PerSecond(100))
		key, model := s.key(), newPool(l)
		charge := func(tenant string, cost int) {
			model.drain(s.clock.now.Load())
			model.charge(tenant, cost)
		}
		reserved := rapid.IntRange(100, 300).Draw(t, "reserved")
		cost := rapid.IntRange(1, reserved).Draw(t, "real cost")
		r := s.reserve(t, shared(key, l, "a", reserved)...)
		charge("a", cost)
		charge("back", reserved-cost) // as if another tenant had been charged the rest
		for range rapid.IntRange(0, 5).Draw(t, "others") {
			for _, own := range [][]core.Check{shared(key, l, "b", 40), shared(key, l, "a", 1)} { // before the units of a lapse
				if !allowed(s.allowAll(t, own...)) {
					t.Fatalf("%s is denied", callString(own))
				}
			}
			charge("b", 40)
			charge("a", 1)
			s.wait(time.Duration(rapid.IntRange(0, 400).Draw(t, "milliseconds")) * time.Millisecond)
		}
		s.allowAll(t, shared(key, l, "b", 1)...) // else the smaller level of the cap counts for the time before, too
		charge("b", 1)
		settleAs(t, r, cost, cost)
		held, _ := model.tenant("a").level.Float64()
		d := s.peekAt(t, 0, shared(key, l, "a", 1)...)
		if want := float64(d[0].Remaining) - held; math.Abs(float64(d[1].Remaining)-want) > 1.1 {
			t.Fatalf("of %d that were reserved, %d were used: %d remain of the share, want %.1f of %d", reserved, cost, d[1].Remaining, want, d[0].Remaining)
		}
	})
}

func sharesApart(t *testing.T, s *stand) {
	l := of(s.algorithm, 100, time.Hour)
	key := s.key()
	tenants := []string{"a", "b", "a:b", "a=b", "a,b", "a%3Ab", "a b", "A", "{a}", "#", "ä"}
	if !allowed(s.allowAll(t, shared(key, l, tenants[0], 30)...)) {
		t.Fatal("the first call is denied")
	}
	if d := s.peekAt(t, 0, shared(key, l, tenants[0], 1)...); d[1].Remaining != 100-30-30 {
		t.Errorf("the tenant has left %d, want 40", d[1].Remaining)
	}
	for _, tenant := range tenants[1:] {
		if d := s.peekAt(t, 0, shared(key, l, tenant, 1)...); d[1].Remaining != 100-30 {
			t.Errorf("tenant %q has left %d, want 70", tenant, d[1].Remaining)
		}
	}
	weighed := s.key()
	s.allowAll(t, shared(weighed, l, "a", 45)...)
	s.allowAll(t, shared(weighed, l, "b", 20)...)
	if d := s.peekAt(t, 0, core.FairShare(core.Check{Key: weighed, Limit: l}, "a", 2)...); d[1].Remaining != 2*35-45 {
		t.Errorf("with twice the weight %d remain, want 25", d[1].Remaining)
	}
	for _, other := range [][]core.Check{
		shared(s.key(), l, "a", 1), shared(key, l.Named("other"), "a", 1),
		shared(key, newLimit(s.algorithm, 100, core.Per(1, time.Hour)), "a", 1),
	} {
		if d := s.peekAt(t, 0, other...); d[1].Remaining != 100 {
			t.Errorf("%s: %d remain, want 100", callString(other), d[1].Remaining)
		}
	}
}

func sharesBeginAnew(t *testing.T, s *stand) {
	for _, other := range []core.Quota{of(s.algorithm, 200, time.Hour), newLimit(s.algorithm, 100, core.Per(1, time.Second))} {
		key, l := s.key(), of(s.algorithm, 100, time.Hour).Named("plan")
		s.allowAll(t, shared(key, l, "a", 30)...)
		left := s.peek(t, key, other.Named("plan")).Remaining
		if d := s.peekAt(t, 0, shared(key, other.Named("plan"), "a", 1)...); d[1].Remaining != left {
			t.Errorf("under other numbers the tenant has left %d, want %d", d[1].Remaining, left)
		}
		s.allowAll(t, shared(key, other.Named("plan"), "a", 20)...)
		if d := s.peekAt(t, 0, shared(key, other.Named("plan"), "a", 1)...); d[1].Remaining != left-40 {
			t.Errorf("after 20 under other numbers the tenant has left %d, want %d", d[1].Remaining, left-40)
		}
		if err := s.limiter.Reset(tContext(t), key, other.Named("plan")); err != nil {
			t.Fatal(err)
		}
		if d := s.peekAt(t, 0, shared(key, other.Named("plan"), "a", 1)...); d[1].Remaining != other.Capacity() {
			t.Errorf("after a reset the tenant has left %d, want %d", d[1].Remaining, other.Capacity())
		}
	}
}

func shadowShares(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 10, time.Hour), s.key()
	c := core.Check{Key: key, Limit: l, Cost: 5, Shadow: true}
	plain := core.Check{Key: s.key(), Limit: l}
	for i, want := range []bool{true, false} {
		d := s.allowAll(t, append([]core.Check{plain}, core.FairShare(c, "a", 1)...)...)
		if !d[0].Allowed || d[2].Allowed != want {
			t.Errorf("call %d: %+v, %+v and %+v", i, answerOf(d[0]), answerOf(d[1]), answerOf(d[2]))
		}
	}
	if d := s.peek(t, plain.Key, l); d.Remaining != 8 {
		t.Errorf("%d remain beside shadows, want 8", d.Remaining)
	}
	if d := s.peekAt(t, 0, shared(key, l, "a", 1)...); d[0].Remaining != 10 || d[1].Remaining != 10 {
		t.Errorf("shadows have left %d and %d, want 10", d[0].Remaining, d[1].Remaining)
	}
}

func sharesWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 10, time.Hour), s.key()
	of := core.Check{Key: key, Limit: l}
	pair := core.FairShare(of, "a", 1)
	changed := func(change func(own *core.Check)) []core.Check {
		own := pair[1]
		change(&own)
		return []core.Check{of, own}
	}
	for name, checks := range map[string][]core.Check{
		"alone":               pair[1:],
		"in front":            {pair[1], of},
		"of another cap":      {{Key: key, Limit: l.Named("other")}, pair[1]},
		"with a check before": {of, {Key: "other", Limit: l}, pair[1]},
		"another key":         changed(func(own *core.Check) { own.Key = "other" }),
		"another cost":        changed(func(own *core.Check) { own.Cost = 2 }),
		"another mode":        changed(func(own *core.Check) { own.Mode = core.Condition }),
		"another headroom":    changed(func(own *core.Check) { own.Headroom = 1 }),
		"for a time":          changed(func(own *core.Check) { own.ReserveFor = time.Second }),
		"an alternative":      core.FirstOf(pair...),
		"of an alternative":   append(core.FirstOf(core.Check{Key: "other", Limit: l}, of), pair[1]),
		"charged twice":       append(slices.Clone(pair), of),
		"for two tenants":     append(slices.Clone(pair), core.FairShare(of, "b", 1)...),
		"no tenant":           core.FairShare(of, "", 1),
		"no weight":           core.FairShare(of, "a", 0),
		"too much weight":     core.FairShare(of, "a", 1001),
		"of a window":         core.FairShare(core.Check{Key: key, Limit: core.FixedWindow(10, time.Hour)}, "a", 1),
		"of a share":          core.FairShare(pair[1], "a", 1),
		"of nothing":          core.FairShare(core.Check{Key: key}, "a", 1),
	} {
		if _, err := s.limiter.AllowAll(tContext(t), checks...); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want an error", name, err)
		}
		if _, err := s.limiter.Reserve(tContext(t), checks...); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: Reserve: %v, want an error", name, err)
		}
	}
	if _, err := s.limiter.Allow(tContext(t), key, pair[1].Limit.(core.Quota)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Allow of a share: %v, want an error", err)
	}
	if d := s.peek(t, key, l); d.Remaining != 10 {
		t.Errorf("%d remain, want 10", d.Remaining)
	}
	if d, err := s.limiter.AllowAll(tContext(t), core.FairShare(core.Check{Key: key, Limit: core.Unlimited}, "a", 1)...); err != nil || !allowed(d) {
		t.Errorf("a share of no limit: %+v, %v", d, err)
	}
}
