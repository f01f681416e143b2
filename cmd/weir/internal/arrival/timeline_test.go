package arrival

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// nobody is a Sink that does nothing.
type nobody struct{}

func (nobody) Second([]Arrival) {}

// The requests that wait have a bound.
func TestCrowdedSecond(t *testing.T) {
	tl := newTimeline(nobody{}, time.Second)
	tl.most = 100_000
	a := Arrival{Key: bytes.Repeat([]byte("k"), 200)}
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = tl.add(&a)
	}
	if !errors.Is(err, ErrCrowded) || n < 100 || n > 400 {
		t.Errorf("after %d requests: %v", n, err)
	}
	tl = newTimeline(nobody{}, time.Second)
	tl.most = 100_000
	for range 2000 {
		a.Instant += Second / 10
		if err = tl.add(&a); err != nil {
			t.Fatal(err)
		}
	}
}
