package busiest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

var bucket = core.Leaky(100, core.PerSecond(1))

func charge(t *testing.T, l *core.Limiter, key string, limit core.Quota, n int) {
	t.Helper()
	if d, err := l.AllowN(t.Context(), key, limit, n); err != nil || !d.Allowed {
		t.Fatalf("%s: %+v, %v", key, d, err)
	}
}

func sample(t *testing.T, s *Sampler) Page {
	t.Helper()
	page, err := s.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// whole samples until a pass has ended that had not begun before.
func whole(t *testing.T, s *Sampler) Page {
	t.Helper()
	before := s.page.Passes
	for range 10_000 {
		if page := sample(t, s); page.Passes >= before+2 {
			return page
		}
	}
	t.Fatal("no pass ends")
	return Page{}
}

func TestTheFullestKeysComeFirst(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		for i := range 100 {
			charge(t, l, fmt.Sprint("user:", i), bucket, i+1)
		}
		charge(t, l, "other", core.FixedWindow(2, time.Hour), 1)
		s := New(l, Options{Prefix: "user:", Rows: 3, Pages: 7})
		page := whole(t, s)
		if len(page.Rows) != 3 || page.Rows[0].Key != "user:99" || page.Rows[2].Key != "user:97" || page.Rows[0].Used() != 100 || page.Rows[0].Decision.Allowed {
			t.Fatalf("%+v", page.Rows)
		}
		if len(page.Sums) != 1 || page.Sums[0] != (Sum{Limit: "leaky:100:1/s", Algorithm: "leaky", Keys: 100, Known: true, Denied: 1}) {
			t.Fatalf("%+v", page.Sums)
		}
		// What changes in view is seen by the next sample.
		time.Sleep(10 * time.Second)
		charge(t, l, "user:97", bucket, 12)
		page = sample(t, s)
		if row := page.Rows[0]; row.Key != "user:97" || row.Used() != 100 || !row.Again || row.Change != 2 {
			t.Fatalf("%+v", page.Rows)
		}
		if row := page.Rows[1]; row.Key != "user:99" || row.Used() != 90 || row.Change != -10 || !row.Decision.Allowed {
			t.Fatalf("%+v", page.Rows)
		}
		// Keys that have recovered leave the page.
		time.Sleep(time.Hour)
		if page = whole(t, s); len(page.Rows) != 0 || len(page.Sums) != 0 {
			t.Fatalf("%+v", page)
		}
	})
}

func TestNamedLimits(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	plan := core.FixedWindow(10, time.Hour).Named("plan")
	charge(t, l, "user:1", plan, 10)
	if _, err := l.AllowAll(t.Context(), core.Check{Key: "user:2", Limit: bucket, Cost: 60, Shadow: true}); err != nil {
		t.Fatal(err)
	}
	page := whole(t, New(l, Options{Rows: 9, Pages: 1}))
	if len(page.Rows) != 1 || page.Rows[0].Key != "user:2" || !page.Rows[0].Shadow || page.Rows[0].Used() != 60 {
		t.Errorf("without its numbers: %+v", page.Rows)
	}
	if len(page.Sums) != 2 || !page.Sums[0].Shadow || page.Sums[1] != (Sum{Limit: "plan", Algorithm: "fixed-window", Keys: 1}) {
		t.Errorf("without its numbers: %+v", page.Sums)
	}
	page = whole(t, New(l, Options{Rows: 9, Pages: 1, Limits: []core.Limit{plan}}))
	if len(page.Rows) != 2 || page.Rows[0].Decision.Limit != plan || page.Sums[0] != (Sum{Limit: "plan", Algorithm: "fixed-window", Keys: 1, Known: true, Denied: 1}) {
		t.Errorf("with its numbers: %+v", page)
	}
}

// A pass takes as many samples as its pages need, and counts each key once.
func TestAPassInParts(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	for i := range 1000 {
		charge(t, l, fmt.Sprint("user:", i), bucket, 1)
	}
	s := New(l, Options{Rows: 1, Pages: 1})
	samples := 0
	for ; s.page.Passes == 0 && samples < 10_000; samples++ {
		if page := sample(t, s); page.Passes == 0 && page.Sums != nil {
			t.Fatal("sums of a part")
		}
	}
	if samples < 2 || s.page.Sums[0].Keys != 1000 {
		t.Errorf("after %d samples: %+v", samples, s.page.Sums)
	}
}

// twice lists every key on two pages, as Redis may.
type twice struct {
	core.Store

	of *core.Limiter
}

func (s twice) List(ctx context.Context, prefix, cursor string) (keys []admin.Entry, next string, err error) {
	cursor, again := strings.CutSuffix(cursor, " again")
	keys, next, err = admin.List(ctx, s.of, prefix, cursor)
	if !again {
		return keys, cursor + " again", err
	}
	return keys, next, err
}

func TestAKeyThatIsListedTwiceIsCountedOnce(t *testing.T) {
	store := core.NewMemory()
	l := core.New(twice{store, core.New(store)})
	defer l.Close()
	charge(t, l, "user:1", bucket, 100)
	if page := whole(t, New(l, Options{Rows: 9, Pages: 3})); len(page.Rows) != 1 || page.Sums[0].Keys != 1 || page.Sums[0].Denied != 1 {
		t.Errorf("%+v", page)
	}
}

func TestAnErrorEndsNoPass(t *testing.T) {
	l := core.New(core.NewMemory())
	for i := range 1000 {
		charge(t, l, fmt.Sprint("user:", i), bucket, 1)
	}
	s := New(l, Options{Rows: 1, Pages: 1})
	page := sample(t, s)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sample(t.Context()); err == nil {
		t.Fatal("a closed limiter answers")
	}
	if page.Listed == 0 || s.page.Listed != page.Listed || s.page.Passes != 0 {
		t.Errorf("%+v, %+v", page, s.page)
	}
}
