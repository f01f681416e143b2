package main

import (
	"context"
	"fmt"
	"time"
)

// patience is how often a contender is tried that gives no answer: the first
// call opens a connection, which a busy machine may not do in time.
const patience = 3

// strict is the quota that every contender has to enforce before it is measured.
func strict() quota { return quota{5, time.Minute} }

// verify asks a contender until it denies: it has to admit the units of the quota,
// and deny before twice as much has passed, which leaves room for a window or a
// whole second that ends in between.
func verify(ctx context.Context, address string, c contender) (err error) {
	s := &setup{address: address}
	defer func() {
		if failure := s.close(); err == nil {
			err = failure
		}
	}()
	ask, err := c.open(s, strict())
	if err != nil {
		return fmt.Errorf("bench: opening %s: %w", c.name, err)
	}
	for _, key := range namesOf("verified:", patience) {
		if err = admitsThenDenies(c.name, func() (bool, error) { return ask(ctx, key) }); err == nil {
			return nil
		}
	}
	return err
}

// admitsThenDenies is the law of verify.
func admitsThenDenies(name string, ask func() (bool, error)) error {
	n := strict().n
	for i := range 2*n + 1 {
		admitted, err := ask()
		if err != nil {
			return fmt.Errorf("bench: %s: call %d: %w", name, i+1, err)
		}
		if !admitted && i < n {
			return fmt.Errorf("bench: %s denied call %d of a quota of %d", name, i+1, n)
		}
		if !admitted {
			return nil
		}
	}
	return fmt.Errorf("bench: %s admitted %d of a quota of %d", name, 2*n+1, n)
}
