package wait

import (
	"errors"
	"slices"
	"testing"
)

// Items are done in one go, those that have nothing to do left aside, and each is told of its own part.
func TestItemsAreDoneInOneGo(t *testing.T) {
	items := []Item[int]{{Value: 2}, {Value: 0}, {Value: 1}, {Value: 3}}
	parts := func(n *int) []int { return slices.Repeat([]int{*n}, *n) }
	failed := errors.New("failed")
	var firsts []int
	left, unknown, err := DoTogether(items, parts, func(all []int) error {
		if !slices.Equal(all, []int{2, 2, 1, 3, 3, 3}) {
			t.Errorf("done is %v", all)
		}
		return failed
	}, func(n *int, first int, err error) Outcome {
		if firsts = append(firsts, first); !errors.Is(err, failed) {
			t.Errorf("the error is %v", err)
		}
		return []Outcome{1: Again, 2: Done, 3: Uncertain}[*n]
	})
	if !errors.Is(err, failed) || unknown != 1 || len(left) != 1 || left[0].Value != 1 || !slices.Equal(firsts, []int{0, 2, 3}) {
		t.Errorf("left are %v of the parts from %v on, %v", left, firsts, err)
	}
	left, unknown, err = DoTogether(items[1:2], parts, func([]int) error { return failed }, nil)
	if err != nil || left != nil || unknown != 0 {
		t.Errorf("left are %v, %v of nothing", left, err)
	}
}
