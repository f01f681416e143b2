package offenders_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// denial is the event of a request that is denied under some keys.
func denial(keys ...string) guard.Event {
	e := guard.Event{Status: http.StatusTooManyRequests}
	for _, key := range keys {
		e.Outcomes = append(e.Outcomes, guard.Outcome{Policy: "p", Key: key, Cost: 1, Decision: core.Decision{RetryAfter: time.Second}})
	}
	return e
}

// Against an exact count of everything that decays alike: no count is too low, none is too
// high by more than it says, nor by more than the n-th part of all, and whoever has more
// than that is found.
func TestOffendersAreWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bubbletest.Run(t, func(*testing.T) {
			size := rapid.IntRange(1, 8).Draw(r, "size")
			halfLife := time.Duration(rapid.IntRange(1, 100).Draw(r, "half-life")) * time.Second
			tracker := offenders.New(offenders.Options{Size: size, HalfLife: halfLife})
			type occurrence struct {
				key string
				at  time.Time
			}
			var all []occurrence
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, 15), 1, 200).Draw(r, "stream") {
				time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 10, 5000}).Draw(r, "pause")) * time.Second)
				key := fmt.Sprint("key", n*n/15) // some more often than others
				all = append(all, occurrence{key, time.Now()})
				tracker.Observe(denial(key))
			}
			exact, total := make(map[string]float64), 0.0
			for _, o := range all {
				worth := math.Exp2(-float64(time.Since(o.at)) / float64(halfLife))
				exact[o.key] += worth
				total += worth
			}
			const slack = 1e-6 // of floating point, and of what is worth nothing any more
			if got := tracker.Total(); math.Abs(got-total) > slack {
				r.Errorf("a total of %v, want %v", got, total)
			}
			found := make(map[string]bool)
			last := math.Inf(1)
			for _, o := range tracker.Top(100) {
				found[o.Key] = true
				if o.Denials > last {
					r.Errorf("%s with %v comes after %v", o.Key, o.Denials, last)
				}
				last = o.Denials
				if o.Denials < exact[o.Key]-slack || o.Denials-o.Error > exact[o.Key]+slack || o.Error > total/float64(size)+slack {
					r.Errorf("%s is counted as %v ± %v of %v, and was there %v times", o.Key, o.Denials, o.Error, total, exact[o.Key])
				}
			}
			if len(found) > size {
				r.Errorf("%d keys, want no more than %d", len(found), size)
			}
			for key, n := range exact {
				if n > total/float64(size)+slack && !found[key] {
					r.Errorf("%s was there %v times of %v, and is not found", key, n, total)
				}
			}
		})
	})
}

func TestOffendersForget(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		tracker := offenders.New(offenders.Options{Size: 5, HalfLife: time.Minute})
		for range 100 {
			tracker.Observe(denial("early"))
		}
		time.Sleep(4 * time.Minute)
		for range 10 {
			tracker.Observe(denial("late"))
		}
		top := tracker.Top(2)
		if top[0].Key != "late" || top[0].Denials != 10 || top[1].Key != "early" || top[1].Denials != 6.25 {
			t.Errorf("%+v, want 10 late ones, and a sixteenth of 100 early ones", top)
		}
		time.Sleep(10_000 * time.Minute)
		tracker.Observe(denial("now"))
		if top := tracker.Top(10); len(top) != 1 || top[0].Key != "now" || top[0].Denials != 1 {
			t.Errorf("%+v, want one who is here now", top)
		}
	})
}

// Only a key that was denied is an offender, and once for each request.
func TestWhoIsNoOffender(t *testing.T) {
	tracker := offenders.New(offenders.Options{})
	allowed := guard.Event{Outcomes: []guard.Outcome{{Key: "good", Decision: core.Decision{Allowed: true}}}}
	shadow := guard.Event{Outcomes: []guard.Outcome{{Key: "watched", Shadow: true}}}
	mixed := denial("bad", "bad")
	mixed.Outcomes = append(mixed.Outcomes, allowed.Outcomes[0], shadow.Outcomes[0])
	settled := denial("answered 429 by the handler itself")
	settled.Settled = true
	for _, e := range []guard.Event{allowed, shadow, mixed, settled} {
		tracker.Observe(e)
	}
	if top := tracker.Top(10); len(top) != 1 || top[0].Key != "bad" || top[0].Denials > 1 {
		t.Errorf("%+v, want one denial of one key", top)
	}
}

func TestOffendersAreHashedOnRequest(t *testing.T) {
	long := strings.Repeat("k", 1_000_000)
	shown := func(hashKey []byte) (keys []string) {
		tracker := offenders.New(offenders.Options{HashKey: hashKey})
		tracker.Observe(denial("ip:203.0.113.9"))
		for _, o := range tracker.Top(1) {
			keys = append(keys, o.Key)
		}
		w := httptest.NewRecorder()
		tracker.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if text := tracker.String() + w.Body.String(); strings.Contains(text, "203.0.113.9") == (hashKey != nil) {
			t.Errorf("with the hash key %q it shows %s", hashKey, text)
		}
		return keys
	}
	first, second := []byte("0123456789abcdef"), []byte("0123456789abcdeF")
	plain, one, again, two := shown(nil), shown(first), shown(first), shown(second)
	if plain[0] != "ip:203.0.113.9" || one[0] == two[0] || one[0] != again[0] || len(one[0]) != len("hmac:")+32 {
		t.Errorf("%q, %q, %q and %q, want the key, and an HMAC by each hash key", plain, one, again, two)
	}
	hashKey := bytes.Clone(first)
	copied := offenders.New(offenders.Options{HashKey: hashKey})
	clear(hashKey)
	copied.Observe(denial("ip:203.0.113.9"))
	if top := copied.Top(1); top[0].Key != one[0] {
		t.Errorf("%q, want %q whatever becomes of the caller's bytes", top[0].Key, one[0])
	}
	tracker := offenders.New(offenders.Options{})
	tracker.Observe(denial(long))
	if top := tracker.Top(1); len(top[0].Key) != len("sha256:")+64 {
		t.Errorf("a long key is kept in %d bytes", len(top[0].Key))
	}
}

func TestOffendersAreServed(t *testing.T) {
	tracker := offenders.New(offenders.Options{HalfLife: time.Hour})
	for i := range 30 {
		for range i + 1 {
			tracker.Observe(denial(fmt.Sprint("key", i)))
		}
	}
	for query, want := range map[string]int{"": 20, "?n=3": 3, "?n=1000": 30} {
		w := httptest.NewRecorder()
		tracker.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+query, nil))
		var body struct {
			HalfLifeSeconds float64 `json:"half_life_seconds"`
			Denials         float64
			Offenders       []offenders.Offender
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if len(body.Offenders) != want || body.Offenders[0].Key != "key29" || body.Offenders[0].Policy != "p" || body.Offenders[0].Last.IsZero() ||
			body.HalfLifeSeconds != 3600 || body.Denials < 464 || w.Header().Get("Cache-Control") != "no-store" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q: %v %s", query, w.Header(), w.Body)
		}
	}
	for method, query := range map[string]string{http.MethodPost: "", http.MethodGet: "?n=none"} {
		w := httptest.NewRecorder()
		tracker.ServeHTTP(w, httptest.NewRequest(method, "/"+query, nil))
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s %q is answered with %d", method, query, w.Code)
		}
	}
	if lines := strings.Split(tracker.String(), "\n"); len(lines) != 22 || !strings.HasPrefix(lines[0], "denials") || !strings.Contains(lines[1], `"key29"`) {
		t.Errorf("printed %q, want a title and 20 offenders", lines)
	}
}

func TestOffendersMayBeUsedByMany(t *testing.T) {
	tracker := offenders.New(offenders.Options{Size: 10, HalfLife: 1000 * time.Hour})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 500 {
				tracker.Observe(denial(fmt.Sprint("key", i*j%37)))
				if j%100 == 0 {
					_ = tracker.String()
				}
			}
		})
	}
	group.Wait()
	if total := tracker.Total(); math.Abs(total-4000) > 1 {
		t.Errorf("a total of %v, want 4000", total)
	}
}

func TestOptionsThatMakeNoSensePanic(t *testing.T) {
	for name, options := range map[string]offenders.Options{
		"no hash key": {HashKey: []byte(os.Getenv("NO_SUCH_VARIABLE"))},
		"hash key":    {HashKey: []byte("fifteen bytes..")},
		"size":        {Size: -1},
		"halflife":    {HalfLife: -1},
	} {
		func() {
			defer func() {
				if reason, _ := recover().(string); !strings.HasPrefix(reason, "offenders: ") {
					t.Errorf("%s: %q, want a panic with the reason", name, reason)
				}
			}()
			offenders.New(options)
		}()
	}
}
