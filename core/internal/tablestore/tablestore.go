// Package tablestore decides calls and carries out corrections on the rows of a user's table, by the
// arithmetic of package exact.
package tablestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Row is the value of a table under a key: see core.Row.
type Row struct {
	Value   []byte
	Expires time.Time
	Changed bool
}

// Update changes the rows of some keys in one transaction: see core.Table.
type Update func(ctx context.Context, keys []string, change func(now time.Time, rows []Row)) error

// Store is a store on a table. It may be used by many goroutines at once.
type Store struct {
	update Update
	closed atomic.Bool
}

// New returns a store on a table.
func New(update Update) *Store { return &Store{update: update} }

// Decide decides some calls about the same states, one after the other, until one is denied. It returns
// how many it has answered.
func (s *Store) Decide(ctx context.Context, calls []*call.Call) (answered int, err error) {
	keys := make([]string, 0, len(calls[0].Checks))
	for i := range calls[0].Checks {
		c := &calls[0].Checks[i]
		keys = append(keys, rowKey(c.Key, c.Spec))
	}
	asked := make([][]call.Check, len(calls)) // a transaction that is repeated begins anew
	for i, c := range calls {
		asked[i] = slices.Clone(c.Checks)
	}
	err = s.change(ctx, keys, func(now int64, rows *rows) {
		answered = 0
		for i, c := range calls {
			copy(c.Checks, asked[i])
			decide(c, now, rows)
			if answered++; !c.Passed() {
				return
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return answered, nil
}

// decide decides a call by the rows of its keys.
func decide(c *call.Call, now int64, rows *rows) {
	ended := exact.MostEnded
	for _, group := range c.Groups {
		records := make([]*exact.Record, len(group))
		for i := range group {
			records[i] = rows.read(group[i].Key, group[i].Spec)
			if group[i].ReserveFor > 0 {
				rows.giveBackEnded(group[i].Key, group[i].Spec, now, &ended)
			}
			if group[i].Charged = (exact.Charge{At: now}); !group[i].Spec.Noted {
				group[i].Charged.Order = records[i].Order()
			}
		}
		pass := c.Resolve(group, now, func(i int) *exact.State { return &records[i].State })
		for i := range group {
			switch check := &group[i]; {
			case check.Writes(pass):
				if check.Spec.Shared {
					check.WriteShare(&records[i].State, &records[i-1].State, now)
					rows.write(group[i-1].Key, group[i-1].Spec, now)
				} else {
					check.Write(&records[i].State, now, pass)
				}
				if pass && check.Noted() && !check.Waived {
					number := records[i].Number(now)
					records[i].State.Note(check.Spec, check.Usage.Used, now, number)
					call.SetNumber(group, i, number)
				}
				if pass && !check.Waived && check.ReserveFor > 0 {
					records[i].Open.Open(check.Reservation(now))
				}
				rows.write(check.Key, check.Spec, now)
			case check.Charge && !check.Spec.Unused(check.Usage): // a denial may keep a log longer: its window may have become longer
				rows.keep(check.Key, check.Spec, check.Keep(now, pass))
			}
		}
	}
}

// Settle carries out corrections, all of them or none.
func (s *Store) Settle(ctx context.Context, list []call.Correction) error {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = rowKey(list[i].Key, list[i].Spec)
	}
	err := s.change(ctx, keys, func(now int64, rows *rows) {
		ended := exact.MostEnded
		for i := range list { // before any correction, which may find less room
			if list[i].Reserved {
				rows.giveBackEnded(list[i].Key, list[i].Spec, now, &ended)
			}
		}
		for i := range list {
			c, record := list[i], rows.read(list[i].Key, list[i].Spec) // the arithmetic makes notes in the correction
			closed := false
			if c.Reserved {
				if closed = record.Open.Close(c.Holder); !closed {
					c.Late()
				}
			}
			if record.Settle(c.Spec, &c.Correction, now) || closed {
				rows.write(c.Key, c.Spec, now)
			}
			list[i].Lost, list[i].Begun = c.Lost, c.Begun
		}
		for i := range list {
			if c := &list[i]; c.Wanted {
				c.ObserveState(&rows.read(c.Key, c.Spec).State, now)
			}
		}
	})
	for i := range list {
		list[i].Observed = list[i].Observed && err == nil // else the transaction has not taken place
	}
	return err
}

// Reset makes the state of a key as good as new under each of some specs.
func (s *Store) Reset(ctx context.Context, key string, specs []*exact.Spec) error {
	keys := make([]string, len(specs))
	for i, spec := range specs {
		keys[i] = rowKey(key, spec)
	}
	return s.change(ctx, keys, func(now int64, rows *rows) {
		for _, spec := range specs {
			if rows.read(key, spec).Reset(spec, now) {
				rows.write(key, spec, now)
			}
		}
	})
}

// Ping reports whether the table can be read.
func (s *Store) Ping(ctx context.Context) error {
	return s.change(ctx, []string{"{}:ping"}, func(int64, *rows) {})
}

// Close lets no more calls begin. It never fails.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// change changes the rows of some keys, which may come in any order and more than once.
func (s *Store) change(ctx context.Context, keys []string, change func(now int64, rows *rows)) error {
	if s.closed.Load() {
		return call.ErrClosed
	}
	if ctx.Err() != nil {
		return call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	t := transaction{change: change, keys: keys}
	defer t.end()
	err := s.update(ctx, keys, t.run)
	switch {
	case err != nil && ctx.Err() != nil: // a driver may name that error otherwise
		return &call.Error{
			Kind: call.GivenUp, NotDone: errors.Is(err, call.ErrNotDone),
			Err: fmt.Errorf("core: the call was given up: %w (%w)", context.Cause(ctx), err),
		}
	case err == nil && !t.ran:
		return call.Unsent(call.Other, "core: the table's Update has not called change")
	}
	return err
}

// transaction changes the rows of some keys. A table may run it several times, and drops all but the last one.
type transaction struct {
	change func(now int64, rows *rows)
	keys   []string

	mu    sync.Mutex
	ran   bool
	ended bool // its caller has left
}

// run changes the rows of the keys. When the transaction has ended, it changes nothing: the memory of the call is used
// again by then.
func (t *transaction) run(now time.Time, list []Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.ran = true
	own := rows{byKey: make(map[string]*row, len(list))}
	for i := range list {
		own.byKey[t.keys[i]] = &row{Row: &list[i]}
	}
	t.change(now.UnixMicro(), &own)
	own.flush(now)
}

func (t *transaction) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// rows are the rows of a transaction.
type rows struct{ byKey map[string]*row }

type row struct {
	*Row

	record  *exact.Record // nil: it has not been read
	changed bool
	until   int64 // in microseconds
}

// read returns the record in a row. A row that has no valid record counts as missing.
func (r *rows) read(key string, spec *exact.Spec) *exact.Record {
	row := r.byKey[rowKey(key, spec)]
	if row.record != nil {
		return row.record
	}
	record, err := exact.ReadRecord(row.Value, spec)
	if err != nil {
		record = exact.Record{}
	}
	row.record, row.until = &record, row.Expires.UnixMicro()
	return row.record
}

// giveBackEnded gives back up to *most reservations of a row that have ended at an instant, and counts them off.
func (r *rows) giveBackEnded(key string, spec *exact.Spec, now int64, most *int) {
	record := r.read(key, spec)
	for _, one := range record.Open.Ended(now, most) {
		refund := one.Refund()
		record.Settle(one.Spec, &refund, now)
		r.write(key, spec, now)
	}
}

// write notes that a record has changed at an instant.
func (r *rows) write(key string, spec *exact.Spec, now int64) {
	row := r.byKey[rowKey(key, spec)]
	row.changed, row.until = true, row.record.Until(now)
}

// keep keeps a row, if there is one, until an instant at least.
func (r *rows) keep(key string, spec *exact.Spec, until int64) {
	if row := r.byKey[rowKey(key, spec)]; row.Value != nil && row.until < until {
		row.changed, row.until = true, until
	}
}

// grace is how long a row outlives its recovery: no decision depends on when it is deleted.
const grace = 2 * time.Second

// flush writes the records that have changed into their rows.
func (r *rows) flush(now time.Time) {
	for _, row := range r.byKey {
		if row.changed {
			row.Value = row.record.Append(nil)
			row.Expires = time.UnixMicro(max(row.until, now.UnixMicro())).Add(grace)
			row.Changed = true
		}
	}
}

// rowKey returns the key of the row that has the state of a caller's key under a spec:
// "{user:42}:leaky:10:1/s".
func rowKey(key string, spec *exact.Spec) string {
	b := call.AppendSubject([]byte{'{'}, key)
	return string(append(append(b, "}:"...), spec.StateName...))
}
