package core

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core/internal/tablestore"
)

// Table keeps rows that can be changed atomically: a table of a SQL database, a key-value store with
// transactions. [NewTableStore] makes a [Store] of one. It may be used by many goroutines at once.
type Table interface {
	// Update calls change with the rows of some keys, and writes the rows that it has changed, in one
	// transaction: no other transaction reads or writes one of these rows in between. The keys are
	// sorted and different from each other, so that transactions which lock rows in this order never
	// deadlock. rows[i] is the row of keys[i]. now is the time of the table's clock: if processes
	// share the table, it is the database's.
	//
	// If the transaction has to be repeated, Update calls change again, with the rows as they are then. When Update has
	// returned, change does nothing. An error means that the call was not decided. If it is certain that nothing was
	// written, the error should wrap [ErrNotDone]. If ctx has ended, the error is [GivenUp], also if Update returns
	// another one.
	Update(ctx context.Context, keys []string, change func(now time.Time, rows []Row)) error
}

// Row is the value of a [Table] under a key.
type Row struct {
	// Value is the JSON text that was written last, or nil if there is no row.
	Value []byte
	// Expires is the instant from which on the row means nothing, and may be deleted. No decision
	// depends on when it is deleted.
	Expires time.Time
	// Changed says that the row must be written.
	Changed bool
}

// NewTableStore returns a store on a table. It decides by the same arithmetic as a store of [NewMemory].
// Each call is one transaction, however many checks it has. There is no budget and no breaker: a call
// ends when Update does, so give the database time-outs of its own, or the calls a deadline. Close does
// not close the table. A nil table panics.
func NewTableStore(table Table) Store {
	if table == nil {
		panic("core: NewTableStore needs a table")
	}
	return &ownStore{tablestore.New(func(ctx context.Context, keys []string, change func(time.Time, []tablestore.Row)) error {
		return table.Update(ctx, keys, func(now time.Time, rows []Row) {
			own := make([]tablestore.Row, len(rows))
			for i, row := range rows {
				own[i] = tablestore.Row(row)
			}
			change(now, own)
			for i, row := range own {
				rows[i] = Row(row)
			}
		})
	})}
}
