package wait

import "container/heap"

// indexed is a heap of items that know their places, so that any of them can be removed. It implements [heap.Interface].
type indexed[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(item T, place int)
}

// absent is the place of an item that is in no heap.
const absent = -1

func (h *indexed[T]) Len() int           { return len(h.items) }
func (h *indexed[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *indexed[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(h.items[i], i)
	h.moved(h.items[j], j)
}

func (h *indexed[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert // nothing else is put into it
	h.moved(item, len(h.items))
	h.items = append(h.items, item)
}

func (h *indexed[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	h.moved(item, absent)
	return item
}

func (h *indexed[T]) add(item T)       { heap.Push(h, item) }
func (h *indexed[T]) remove(place int) { heap.Remove(h, place) }

// first returns the least item, of a heap that has one.
func (h *indexed[T]) first() T { return h.items[0] }
