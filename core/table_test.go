package core_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// table is a table in this process, which has each transaction repeated now and then.
type table struct {
	mu   sync.Mutex
	rows map[string]core.Row
	now  func() time.Time
	runs int
	err  error
}

func (t *table) Update(_ context.Context, keys []string, change func(now time.Time, rows []core.Row)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
		return errors.New("the keys are not sorted, or not different")
	}
	t.runs++
	for range 1 + t.runs%2 {
		rows := make([]core.Row, len(keys))
		for i, key := range keys {
			rows[i] = t.rows[key]
			rows[i].Value = slices.Clone(rows[i].Value)
		}
		change(t.now(), rows)
		if t.runs%2 == 1 {
			t.runs++
			continue // it is rolled back, and begins anew
		}
		for i, key := range keys {
			if rows[i].Changed {
				t.rows[key] = core.Row{Value: rows[i].Value, Expires: rows[i].Expires}
			}
		}
	}
	return nil
}

func newTable(now func() time.Time) *table { return &table{rows: make(map[string]core.Row), now: now} }

// The arithmetic is that of the store in memory, which is checked on all examples.
func TestTableStoreKeepsTheLaws(t *testing.T) {
	fewer(t, 6, func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) })
}

// A row that holds anything else is as good as none, and is mended by the next charge.
func TestATableStoreHealsDamagedRows(t *testing.T) {
	for _, damage := range []string{"", "x", "{}", `{"limit":"leaky 10, 1/h","level":-1}`, `{"limit":"gcra 10, 1/h","level":1}`, `{"past":{}}`} {
		rows := newTable(time.Now)
		limiter, limit := core.New(core.NewTableStore(rows)), core.Leaky(10, core.PerHour(1))
		rows.rows["{key}:leaky:10:1/h"] = core.Row{Value: []byte(damage), Expires: time.Now().Add(time.Hour)}
		for want := 9; want > 7; want-- {
			if d, err := limiter.Allow(t.Context(), "key", limit); err != nil || d.Remaining != want {
				t.Errorf("damaged by %q: %+v, %v, want %d to remain", damage, d, err, want)
			}
		}
	}
}

// A row is kept for as long as its state counts, and little longer.
func TestRowsOfATableExpire(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	rows := newTable(func() time.Time { return now })
	limiter := core.New(core.NewTableStore(rows))
	for _, limit := range []core.Quota{
		core.Leaky(10, core.PerHour(1)), core.GCRA(10, core.PerHour(1)), core.FixedWindow(10, time.Hour),
		core.SlidingWindow(10, time.Hour), core.SlidingLog(10, time.Hour),
	} {
		d, err := limiter.AllowN(t.Context(), "key", limit, 3)
		if err != nil {
			t.Fatal(err)
		}
		expires := rows.rows["{key}:"+limit.Name()].Expires
		if lives := expires.Sub(now); lives < d.ResetAfter || lives > 2*d.ResetAfter+2*time.Second {
			t.Errorf("%s: the row lives for %v, and has recovered after %v", limit, lives, d.ResetAfter)
		}
	}
}

// A denial writes no row, whatever there is of the other checks: nothing, something, or what has recovered.
func TestDenialsWriteNoRows(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	rows := newTable(func() time.Time { return now })
	limiter := core.New(core.NewTableStore(rows))
	for _, limit := range []core.Quota{
		core.Leaky(10, core.PerHour(10)), core.Shaping(10, core.PerHour(10)), core.TokenBucket(10, core.PerHour(10)),
		core.GCRA(10, core.PerHour(10)), core.FixedWindow(10, time.Hour), core.SlidingWindow(10, time.Hour), core.SlidingLog(10, time.Hour),
	} {
		daily := core.Leaky(1, core.PerDay(1))
		used := core.Check{Key: "used up", Limit: daily}
		if _, err := limiter.Charge(t.Context(), used.Key, daily, 1); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, 30 * time.Minute, 3 * time.Hour} { // until it has recovered
			if wait == 30*time.Minute {
				if _, err := limiter.AllowN(t.Context(), "key", limit, 6); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(wait)
			before := maps.Clone(rows.rows)
			decisions, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit}, used)
			if err != nil || decisions[1].Allowed {
				t.Fatalf("%+v, %v", decisions, err)
			}
			for key, row := range rows.rows {
				if !row.Expires.Equal(before[key].Expires) || string(row.Value) != string(before[key].Value) {
					t.Errorf("%s after %v: a denial writes %s: %s until %v", limit, wait, key, row.Value, row.Expires.Sub(now))
				}
			}
		}
	}
}

// The table's error is the caller's.
func TestATableThatFails(t *testing.T) {
	rows := newTable(time.Now)
	rows.err = errors.Join(core.ErrNotDone, errors.New("the database is away"))
	limiter, limit := core.New(core.NewTableStore(rows)), core.Leaky(10, core.PerHour(1))
	_, err := limiter.Allow(t.Context(), "key", limit)
	_, refund := limiter.Refund(t.Context(), "key", limit, 1)
	for verb, err := range map[string]error{
		"Allow": err, "Refund": refund, "Reset": limiter.Reset(t.Context(), "key", limit),
		"Ping": limiter.Ping(t.Context()),
	} {
		if !errors.Is(err, rows.err) || !errors.Is(err, core.ErrNotDone) {
			t.Errorf("%s: %v, want %v", verb, err, rows.err)
		}
	}
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Allow(t.Context(), "key", limit); core.FailureOf(err) != core.Closed {
		t.Errorf("after Close: %v", err)
	}
}

// update is a table that is a function.
type update func(ctx context.Context, keys []string, change func(now time.Time, rows []core.Row)) error

func (u update) Update(ctx context.Context, keys []string, change func(now time.Time, rows []core.Row)) error {
	return u(ctx, keys, change)
}

// A caller who leaves is no fault of the table, whatever error its driver makes of that.
func TestATableWhoseCallerLeaves(t *testing.T) {
	for _, notDone := range []bool{false, true} {
		ctx, leave := context.WithCancel(t.Context())
		rows := update(func(ctx context.Context, _ []string, _ func(time.Time, []core.Row)) error {
			leave()
			<-ctx.Done()
			if notDone {
				return errors.Join(core.ErrNotDone, errors.New("interrupted"))
			}
			return errors.New("interrupted")
		})
		limiter, limit := core.New(core.NewTableStore(rows)), core.Leaky(10, core.PerHour(1))
		_, err := limiter.Allow(ctx, "key", limit)
		if core.FailureOf(err) != core.GivenUp || !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrNotDone) != notDone {
			t.Errorf("%v, which is %s, want that the call was given up", err, core.FailureOf(err))
		}
	}
}

// What a table does with the rows after Update has returned changes nothing, neither of them nor of what
// somebody else is told.
func TestATableThatReturnsTooEarly(t *testing.T) {
	rows := newTable(time.Now)
	var late func()
	limiter, limit := core.New(core.NewTableStore(update(func(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
		if late != nil {
			late() // while somebody else is being answered
			return rows.Update(ctx, keys, change)
		}
		late = func() {
			left := make([]core.Row, len(keys))
			if change(time.Now(), left); left[0].Changed {
				t.Errorf("changed to %s", left[0].Value)
			}
		}
		return errors.New("it takes too long")
	}))), core.Leaky(10, core.PerHour(1))
	if d, err := limiter.AllowN(t.Context(), "key", limit, 10); err == nil {
		t.Errorf("decided without its rows: %+v", d)
	}
	for want := 9; want >= 0; want-- {
		if d, err := limiter.Allow(t.Context(), "key", limit); err != nil || d.Remaining != want {
			t.Errorf("%+v, %v, want %d to remain", d, err, want)
		}
	}
}

// Of a transaction that has failed, nobody is told what it would have left.
func TestATableThatFailsAfterTheChangeTellsNothing(t *testing.T) {
	rows, failed := newTable(time.Now), errors.New("the transaction was not committed")
	store := core.NewTableStore(update(func(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
		return errors.Join(rows.Update(ctx, keys, change), failed)
	}))
	told := core.Decision{Remaining: -1}
	before := told
	err := store.Settle(t.Context(), []core.Settlement{{
		Check: core.Check{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Mode: core.Look}, Cost: 3, Decision: &told,
	}})
	if !errors.Is(err, failed) || told != before {
		t.Errorf("told %+v, %v", told, err)
	}
}

// A table that changes nothing decides nothing.
func TestATableThatDoesNotCallChange(t *testing.T) {
	limiter := core.New(core.NewTableStore(update(func(context.Context, []string, func(time.Time, []core.Row)) error { return nil })))
	limit := core.Leaky(10, core.PerHour(1))
	d, err := limiter.Allow(t.Context(), "key", limit)
	_, refund := limiter.Refund(t.Context(), "key", limit, 1)
	for verb, err := range map[string]error{
		"Allow": err, "Refund": refund, "Reset": limiter.Reset(t.Context(), "key", limit),
		"Ping": limiter.Ping(t.Context()),
	} {
		if err == nil {
			t.Errorf("%s succeeds: %+v", verb, d)
		}
	}
}

// A table is not asked about no keys.
func TestATableIsAskedAboutKeys(t *testing.T) {
	rows := newTable(time.Now)
	store := core.NewTableStore(update(func(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
		if len(keys) == 0 {
			return errors.New("no keys")
		}
		return rows.Update(ctx, keys, change)
	}))
	same := core.Check{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Cost: 3}
	for name, err := range map[string]error{
		"Ping": store.Ping(t.Context()), "Settle nothing": store.Settle(t.Context(), nil),
		"Settle what is right": store.Settle(t.Context(), []core.Settlement{{Check: same, Cost: 3}}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A table that panics leaves nothing behind: the calls after it are charged once, and told their own
// numbers.
func TestATableThatPanicsSpoilsNoLaterCall(t *testing.T) {
	rows := newTable(time.Now)
	limit := core.Leaky(10, core.PerHour(1))
	broken, well := core.New(core.NewTableStore(panicking{rows})), core.New(core.NewMemory())
	for i := range 10 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is hidden")
				}
			}()
			_, _ = broken.Allow(t.Context(), "other", limit)
		}()
		if d, err := well.Allow(t.Context(), "key", limit); err != nil || d.Remaining != 9-i {
			t.Fatalf("after %d panics: %+v, %v, want %d to remain", i+1, d, err, 9-i)
		}
	}
}

// panicking is a table that panics when it has had the rows changed.
type panicking struct{ *table }

func (p panicking) Update(ctx context.Context, keys []string, change func(now time.Time, rows []core.Row)) error {
	_ = p.table.Update(ctx, keys, change)
	panic("the driver")
}

// A store of one's own may copy a call and have two stores decide it at once.
func TestCopiesOfACallShareNothing(t *testing.T) {
	limit := core.Leaky(10_000, core.PerHour(1))
	mirror := core.New(mirrored{core.NewMemory(), core.NewMemory()})
	for range 1000 {
		if d, err := mirror.Allow(t.Context(), "key", limit); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if d, err := mirror.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 9_000 {
		t.Errorf("%+v, %v, want 9000 to remain", d, err)
	}
}

// mirrored is a store that has another one decide the same at the same time.
type mirrored struct {
	core.Store

	other core.Store
}

func (m mirrored) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	copied := calls[0]
	copied.Decisions = make([]core.Decision, len(copied.Checks))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = m.other.Decide(ctx, []core.Call{copied})
	}()
	defer func() { <-done }()
	return m.Store.Decide(ctx, calls[:1])
}
