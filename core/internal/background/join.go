package background

// Join does some items in one go. parts returns the parts of an item: none if there is nothing to do any more. do does
// the parts of all items. after is told what became of each item, with the place of its first part among all, and reports
// whether it has to be done again. With an error of do, Join returns those items.
func Join[T, S any](
	items []Item[T], parts func(*T) []S, do func(all []S) error, after func(one *T, first int, err error) (again bool),
) (left []Item[T], err error) {
	var all []S
	var joined, firsts []int
	for i := range items {
		if own := parts(&items[i].Value); len(own) > 0 {
			joined, firsts = append(joined, i), append(firsts, len(all))
			all = append(all, own...)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = do(all)
	for n, i := range joined {
		if after(&items[i].Value, firsts[n], err) {
			left = append(left, items[i])
		}
	}
	return left, err
}
