package wait

// Outcome is the result of an item.
type Outcome int

const (
	// Done says that there is nothing left to do.
	Done Outcome = iota
	// Again says that the item was certainly not done.
	Again
	// Uncertain says that the item may have been done, and that it cannot be done again.
	Uncertain
)

// DoTogether does some items in one go. parts returns the parts of an item: none if there is nothing to do any more. do does
// the parts of all items. after gets each item, with the place of its first part among all, and returns its outcome. If
// do returns an error, DoTogether returns the items to do again, and the number of items that may have been done or not.
func DoTogether[T, S any](
	items []Item[T], parts func(*T) []S, do func(all []S) error, after func(one *T, first int, err error) Outcome,
) (left []Item[T], unknown int, err error) {
	var all []S
	var joined, firsts []int
	for i := range items {
		if own := parts(&items[i].Value); len(own) > 0 {
			joined, firsts = append(joined, i), append(firsts, len(all))
			all = append(all, own...)
		}
	}
	if len(all) == 0 {
		return nil, 0, nil
	}
	err = do(all)
	for n, i := range joined {
		switch after(&items[i].Value, firsts[n], err) {
		case Again:
			left = append(left, items[i])
		case Uncertain:
			unknown++
		case Done:
		}
	}
	return left, unknown, err
}
