package fallback

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A fallback starts a key from what a request has really cost, however late that is known.
func TestFallbackGoesOnFromTheRealCost(t *testing.T) {
	meter, window := core.Leaky(10, core.PerHour(10)), core.FixedWindow(10, time.Hour)
	for name, c := range map[string]struct {
		limit   core.Limit
		reserve int
		later   time.Duration // until it is settled
		others  int           // are charged just before that
		begun   bool          // the fallback has admitted one meanwhile
		cost    int
		want    int // passes of this process, one of two
	}{
		"less":                                    {meter, 6, 0, 0, false, 2, 4},
		"more":                                    {meter, 6, 0, 0, false, 8, 1},
		"much more":                               {meter, 6, 0, 0, false, 100, 0},
		"nothing":                                 {meter, 6, 0, 0, false, 0, 5},
		"nothing was reserved":                    {meter, 0, 0, 0, false, 4, 3},
		"as much":                                 {meter, 6, 0, 0, false, 6, 2},
		"less, and others have charged":           {meter, 4, 0, 4, false, 0, 3},
		"less, when half has drained":             {meter, 6, 18 * time.Minute, 2, false, 0, 4},
		"less, when all has drained":              {meter, 6, 36 * time.Minute, 4, false, 0, 3},
		"more, when all has drained":              {meter, 6, 36 * time.Minute, 0, false, 8, 4},
		"less of a window":                        {window, 6, 59 * time.Minute, 2, false, 1, 3},
		"more of a window":                        {window, 6, 59 * time.Minute, 0, false, 9, 0},
		"less of a window that has closed":        {window, 6, time.Hour, 4, false, 0, 3},
		"more of a window that has closed":        {window, 6, time.Hour, 0, false, 9, 5},
		"more of one that has closed, and begun":  {window, 6, time.Hour, 0, true, 9, 4},
		"less, when the fallback has begun":       {meter, 6, 0, 0, true, 0, 4},
		"more, when the fallback has begun":       {meter, 3, 0, 0, true, 5, 1},
		"a bit less, when the fallback has begun": {meter, 6, 0, 0, true, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
			clock := func() time.Time { return now }
			limiter, fallback := core.New(core.NewMemory(core.WithClock(clock))), fallbackAt(2, clock)
			reserve := func(cost int) (*core.Reservation, []core.Check) {
				t.Helper()
				check := core.Check{Key: "key", Limit: c.limit, Cost: cost}
				r, err := limiter.Reserve(t.Context(), check)
				if err != nil {
					t.Fatal(err)
				}
				fallback.Observe([]core.Check{check}, r.Decisions())
				return r, []core.Check{check}
			}
			r, checks := reserve(c.reserve)
			now = now.Add(c.later)
			if c.others > 0 {
				reserve(c.others)
			}
			if c.begun {
				if d := decideBy(t, fallback, core.Check{Key: "key", Limit: c.limit, Cost: 1})[0]; !d.Allowed {
					t.Fatal(d)
				}
			}
			fallback.ObserveSettled(t.Context(), r, checks, c.later, []int{c.cost})
			if got := passes(t, fallback, "key", c.limit); got != c.want {
				t.Errorf("%d pass, want %d", got, c.want)
			}
		})
	}
}

// Nothing is given back of what was not charged.
func TestFallbackIsNotCorrectedByWhatWasNotCharged(t *testing.T) {
	limiter, fallback := core.New(core.NewMemory()), New(1, 100)
	checks := []core.Check{
		{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Cost: 6},
		{Key: "other", Limit: core.Leaky(10, core.PerHour(1)), Cost: 11},
		{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Cost: 6, Shadow: true},
	}
	if _, err := limiter.AllowN(t.Context(), "key", core.Leaky(10, core.PerHour(1)), 4); err != nil {
		t.Fatal(err)
	}
	denied, err := limiter.Reserve(t.Context(), checks...)
	if err != nil || denied.Allowed() {
		t.Fatal(denied, err)
	}
	fallback.Observe(checks, denied.Decisions())
	fallback.ObserveSettled(t.Context(), denied, checks, 0, []int{0, 0, 0})
	shadow, err := limiter.Reserve(t.Context(), checks[2])
	if err != nil {
		t.Fatal(err)
	}
	fallback.ObserveSettled(t.Context(), shadow, []core.Check{checks[2]}, 0, []int{0})
	if got := passes(t, fallback, "key", checks[0].Limit); got != 6 {
		t.Errorf("%d pass, want 6", got)
	}
}

// What the fallback itself has charged is settled, too.
func TestFallbackSettlesItsOwnReservations(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			limit := limit(10)
			for _, c := range []struct{ reserve, cost, want int }{
				{3, 1, 4},
				{3, 0, 5},
				{3, 4, 1},
				{3, 100, 0},
				{10, 10, 0},
				{10, 7, 0},
				{10, 2, 3}, // more than the share takes all of it
			} {
				fallback := New(2, 100)
				r, err := fallback.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: c.reserve},
					core.Check{Key: "key", Limit: limit, Cost: 1, Shadow: true})
				if err != nil {
					t.Fatal(err)
				}
				if d := r.Decisions()[0]; !r.Allowed() || !d.Degraded || d.Limit != limit {
					t.Errorf("%+v, want it admitted, marked as degraded, and of the limit that was asked", d)
				}
				if err := r.Settle(t.Context(), c.cost, 0); err != nil {
					t.Fatal(err)
				}
				if d := r.Decisions()[0]; d.Remaining != c.want || !d.Degraded || d.Limit != limit {
					t.Errorf("%+v, want it to tell that %d are left of the share", d, c.want)
				}
				if got := passes(t, fallback, "key", limit); got != c.want {
					t.Errorf("%d pass after %d were reserved and %d used, want %d", got, c.reserve, c.cost, c.want)
				}
			}
		})
	}
}
