package headers_test

import (
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// FuzzDraft11 holds for all numbers and names that the fields parse, that the rate in them is
// the limit's own, and that no client is told too short a wait.
func FuzzDraft11(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, name string, capacity, events int, period int64, allowed bool, remaining int, retry, next int64) {
		d := decision(capacity, events, period, allowed, remaining, retry, next)
		list := []headers.Outcome{{Name: name, Unit: name, Decision: d, Key: name}, {Name: "other", Decision: first}}
		h := http.Header{}
		headers.Draft.Write(h, list)

		quotas, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
		if err != nil {
			t.Fatalf("RateLimit-Policy %q: %v", h.Values("RateLimit-Policy"), err)
		}
		limits, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
		if err != nil {
			t.Fatalf("RateLimit %q: %v", h.Values("RateLimit"), err)
		}
		if !isPrintable(name) {
			if len(quotas) != 1 || len(limits) != 1 {
				t.Fatalf("name %q: %q", name, h)
			}
			return
		}
		if len(quotas) != 2 || len(limits) != 2 {
			t.Fatalf("two policies: %q", h)
		}

		for field, list := range map[string]httpsfv.List{"RateLimit-Policy": quotas, "RateLimit": limits} {
			canonical, err := httpsfv.Marshal(list)
			if got := h.Get(field); err != nil || got != canonical {
				t.Errorf("%s is %s, want the canonical %s, %v", field, got, canonical, err)
			}
		}
		if retryAfter, denied := headers.RetryAfter(list); denied {
			for _, member := range limits {
				if window, _ := parameter(member.(httpsfv.Item), "t"); window > retryAfter {
					t.Errorf("%q with Retry-After %d, want no longer t", h, retryAfter)
				}
			}
		}
		partitioned, prepared := http.Header{}, http.Header{}
		headers.DraftPartitioned(partitionSecret).Write(partitioned, list)
		if _, err := httpsfv.UnmarshalList(partitioned.Values("RateLimit")); err != nil {
			t.Errorf("with partition keys %q: %v", partitioned, err)
		}
		dialect.Prepare(headers.Draft, list).Write(prepared, list)
		if prepared.Get("RateLimit") != h.Get("RateLimit") || prepared.Get("RateLimit-Policy") != h.Get("RateLimit-Policy") {
			t.Errorf("prepared %q, want %q", prepared, h)
		}

		quota, limit := quotas[0].(httpsfv.Item), limits[0].(httpsfv.Item)
		if quota.Value != name || limit.Value != name {
			t.Errorf("name %q: %q", name, h)
		}
		if unit, ok := quota.Params.Get("qu"); ok != (name != "") || ok && unit != name {
			t.Errorf("unit %q: %q", name, h)
		}
		checkQuota(t, quota, d.Limit)
		checkLimit(t, limit, d)
	})
}

// FuzzOlderDialects holds that the fields of drafts 6 and 7 parse, and that draft 6 never
// lists two policies with the same quota.
func FuzzOlderDialects(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, name string, capacity, events int, period int64, allowed bool, remaining int, retry, next int64) {
		d := decision(capacity, events, period, allowed, remaining, retry, next)
		list := []headers.Outcome{{Name: "first", Decision: first}, {Name: name, Decision: d}, {Name: "last", Decision: closed}}
		h := http.Header{}
		headers.Join(headers.Draft7, headers.Draft6).Write(h, list)

		if _, err := httpsfv.UnmarshalDictionary(h.Values("RateLimit")); err != nil {
			t.Errorf("RateLimit %q: %v", h.Values("RateLimit"), err)
		}
		for _, field := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			item, err := httpsfv.UnmarshalItem(h.Values(field))
			if err != nil {
				t.Fatalf("%s %q: %v", field, h.Values(field), err)
			}
			if item.Value.(int64) < 0 {
				t.Errorf("%s is %d", field, item.Value)
			}
		}
		quotas, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
		if err != nil {
			t.Fatalf("RateLimit-Policy %q: %v", h.Values("RateLimit-Policy"), err)
		}
		var seen []int64
		for _, member := range quotas {
			item := member.(httpsfv.Item)
			if _, ok := parameter(item, "w"); !ok {
				t.Errorf("no w: %q", h)
			}
			q := item.Value.(int64)
			if slices.Contains(seen, q) {
				t.Errorf("two policies of quota %d: %q", q, h)
			}
			seen = append(seen, q)
		}
	})
}

func seed(f *testing.F) {
	f.Helper()
	const never = int64(core.Never)
	second := int64(time.Second)
	f.Add("burst", 10, 1, second, true, 9, int64(0), second)
	f.Add("burst", 10, 1, second, false, 0, second/2, second/2)
	f.Add(`we"ird\x`, 10, 10, second/10, false, 4, never, int64(1))
	f.Add("naïve", 5, 5, 3*second/2, false, 4, second+1, int64(0))
	f.Add("", 1<<53-1, 600_000_000_000_000, 3*second/2, true, 1<<53-1, int64(0), int64(0))
	f.Add("endless", 5, 1, 100*365*24*3600*second-1000, true, 5, int64(0), int64(0))
	f.Add("nonsense", -1, -1, int64(-1), true, -1, int64(-1), int64(-1))
}

func decision(capacity, events int, period int64, allowed bool, remaining int, retry, next int64) core.Decision {
	d := core.Decision{
		Allowed:    allowed,
		Limit:      core.Leaky(capacity, core.Per(events, time.Duration(period))),
		Remaining:  remaining,
		NextAfter:  time.Duration(next),
		ResetAfter: time.Duration(next),
	}
	if !allowed {
		d.RetryAfter = time.Duration(retry)
	}
	return d
}

func checkQuota(t *testing.T, item httpsfv.Item, limit core.Limit) {
	t.Helper()
	capacity := min(max(int64(limit.Capacity()), 0), largest)
	q, ok := parameter(item, "q")
	if !ok || q < 0 {
		t.Fatalf("q is %d, %t", q, ok)
	}
	burst, bursts := parameter(item, "weir-burst")
	if bursts == (capacity == q) || bursts && burst != capacity {
		t.Errorf("weir-burst is %d, %t: q is %d and the capacity %d", burst, bursts, q, capacity)
	}

	w, ok := parameter(item, "w")
	pace, paced := pace(limit)
	switch {
	case !paced:
		if ok {
			t.Errorf("w is %d, but the rate is no rate: %+v", w, limit.Rate())
		}
	case ok:
		if w < 1 {
			t.Fatalf("w is %d", w)
		}
		if told := big.NewRat(q, w); told.Cmp(pace) != 0 {
			t.Errorf("q=%d;w=%d is %v a second, the rate is %v", q, w, told, pace)
		}
	case pace.Num().Cmp(big.NewInt(largest)) <= 0 && pace.Denom().Cmp(big.NewInt(largest)) <= 0:
		t.Errorf("no w, though the rate is %v a second", pace)
	case q != capacity:
		t.Errorf("no w and q=%d, the capacity is %d", q, capacity)
	}
}

func checkLimit(t *testing.T, item httpsfv.Item, d core.Decision) {
	t.Helper()
	r, ok := parameter(item, "r")
	if want := min(max(int64(d.Remaining), 0), largest); !ok || r != want {
		t.Errorf("r is %d, %t; want %d", r, ok, want)
	}
	window, ok := parameter(item, "t")
	if !d.Allowed {
		retryAfter, cured := headers.RetryAfter([]headers.Outcome{{Decision: d}})
		if ok != cured || window != retryAfter {
			t.Errorf("t is %d, %t; Retry-After %d, %t", window, ok, retryAfter, cured)
		}
		if cured && retryAfter < 1 {
			t.Errorf("Retry-After is %d", retryAfter)
		}
		if cured && big.NewInt(retryAfter).Cmp(seconds(d.RetryAfter)) < 0 {
			t.Errorf("Retry-After is %d, the wait %v", retryAfter, d.RetryAfter)
		}
		return
	}
	if !ok || window < 0 {
		t.Fatalf("t is %d, %t", window, ok)
	}
	if big.NewInt(window).Cmp(seconds(d.NextAfter)) < 0 {
		t.Errorf("t is %d, the next unit is %v away", window, d.NextAfter)
	}
	if pace, paced := pace(d.Limit); paced && window < largest {
		allowance := new(big.Rat).Mul(pace, big.NewRat(window, 1))
		if allowance.Cmp(big.NewRat(r, 1)) < 0 {
			t.Errorf("r=%d;t=%d is faster than %v a second", r, window, pace)
		}
	}
}

// pace returns the events per second of a limit, exactly.
func pace(limit core.Limit) (*big.Rat, bool) {
	rate := limit.Rate()
	if rate.Events <= 0 || rate.Period <= 0 {
		return nil, false
	}
	perNanosecond := big.NewRat(int64(rate.Events), int64(rate.Period))
	return perNanosecond.Mul(perNanosecond, big.NewRat(int64(time.Second), 1)), true
}

// seconds returns d in whole seconds, rounded up. Its arithmetic is not that of the package.
func seconds(d time.Duration) *big.Int {
	whole, rest := new(big.Int).DivMod(big.NewInt(int64(d)), big.NewInt(int64(time.Second)), new(big.Int))
	if rest.Sign() != 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

func parameter(item httpsfv.Item, key string) (int64, bool) {
	value, ok := item.Params.Get(key)
	if !ok {
		return 0, false
	}
	n, ok := value.(int64)
	return n, ok
}

func isPrintable(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}
