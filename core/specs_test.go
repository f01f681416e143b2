package core

import (
	"strconv"
	"testing"
)

func TestEqualLimitsHaveOneSpec(t *testing.T) {
	made := make([]Quota, 8)
	done := make(chan struct{})
	for i := range made {
		go func() {
			made[i] = Leaky(7, PerHour(3)).Named("one-" + strconv.Itoa(1))
			done <- struct{}{}
		}()
	}
	for range made {
		<-done
	}
	for _, l := range made {
		if l != made[0] {
			t.Fatalf("%v and %v are two", l, made[0])
		}
	}
	if l := made[0].Named(""); l != Leaky(7, PerHour(3)) || l == made[0] || l.Identity() == made[0].Identity() {
		t.Errorf("unnamed again it is %v", l)
	}
	if l := (Quota{}).Named("").Named(""); l != (Quota{}) || l.Identity() != l {
		t.Errorf("the zero Quota without a name is %v", l)
	}
}
