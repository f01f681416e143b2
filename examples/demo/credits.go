package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// buy tops up a visitor's credits, as a shop does after a payment, whether or not the browser waits for it.
func (p *page) buy(v *visitor, n int) error {
	if n < 1 || n > mostBurst {
		return fmt.Errorf("count is %d, and must be from 1 to %d", n, mostBurst)
	}
	if v.firstPurchase() {
		p.under.Go(func() {
			<-v.known.Done()
			p.giveUpCredits(v)
		})
	}
	if _, _, err := p.limiter.TopUp(v.known, v.key, credits, n, rand.Text()); err != nil {
		return errors.Join(errStore, err)
	}
	if v.known.Err() != nil { // they may have been taken before they were there
		p.giveUpCredits(v)
	}
	v.Lock()
	defer v.Unlock()
	v.purchases++
	return nil
}

// giveUpCredits takes the credits of a visitor who is forgotten: a balance has no time to live, so the store would keep it for ever.
func (p *page) giveUpCredits(v *visitor) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.known), time.Second)
	defer cancel()
	_ = p.limiter.Reset(ctx, v.key, credits) // a store that is gone keeps a few units of a visitor who does not come back
}

// firstPurchase reports whether the visitor has bought nothing so far, once.
func (v *visitor) firstPurchase() bool {
	v.Lock()
	defer v.Unlock()
	first := !v.buys
	v.buys = true
	return first
}
