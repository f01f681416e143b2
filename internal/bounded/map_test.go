package bounded

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// A small map is one shard, whose latest entries are known: it agrees with a list of them, and never holds more than its size.
func TestTheLatestEntriesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		m, latest := New[int, int](size), []int(nil) // keys, the latest one last; -1 was deleted
		values := make(map[int]int)
		forget := func(key int) {
			if i := slices.Index(latest, key); i >= 0 {
				latest[i] = -1
			}
			delete(values, key)
		}
		add := func(key, value int) {
			if i := slices.Index(latest, key); i >= 0 {
				latest = slices.Delete(latest, i, i+1)
			}
			latest, values[key] = append(latest, key), value
		}
		sure := max(1, size/2) // how many of the latest entries must be there
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 12).Draw(t, "key")
			had, wasThere := m.Get(key)
			if want, known := values[key]; wasThere && (!known || had != want) {
				t.Fatalf("step %d: %d has %d, want %d, %t", step, key, had, want, known)
			}
			switch rapid.IntRange(0, 4).Draw(t, "action") {
			case 0:
				if got, ok := m.Delete(key); got != had || ok != wasThere {
					t.Fatalf("step %d: %d, %t was deleted, want %d, %t", step, got, ok, had, wasThere)
				}
				forget(key)
			case 1:
				m.Update(key, func(got int, ok bool) (int, bool) {
					if got != had || ok != wasThere {
						t.Fatalf("step %d: %d, %t is updated, want %d, %t", step, got, ok, had, wasThere)
					}
					return 0, false
				})
				forget(key)
			case 2:
				m.Update(key, func(int, bool) (int, bool) { return step, true })
				add(key, step)
			default:
				m.Set(key, step)
				add(key, step)
			}
			if n := m.Len(); n > max(2, size) {
				t.Fatalf("step %d: a map of %d has %d entries", step, size, n)
			}
			for _, own := range latest[max(0, len(latest)-sure):] {
				if got, ok := m.Get(own); own >= 0 && (!ok || got != values[own]) {
					t.Fatalf("step %d: %d, one of the latest %d, has %d, %t, want %d", step, own, sure, got, ok, values[own])
				}
			}
		}
		m.Clear()
		if m.Len() != 0 {
			t.Fatalf("%d entries are left", m.Len())
		}
	})
}

// A large map has many shards, and is never larger than it may be, whoever uses it at the same time.
func TestALargeMapIsBounded(t *testing.T) {
	const size = 10_000
	m := New[string, int](size)
	if len(m.shards) != mostShards {
		t.Fatalf("%d shards", len(m.shards))
	}
	var users sync.WaitGroup
	for n := range 4 {
		users.Go(func() {
			for i := range size {
				m.Set(strconv.Itoa(i+n*size/2), i)
				m.Update("all", func(sum int, _ bool) (int, bool) {
					runtime.Gosched() // others have their chance to come between
					return sum + 1, true
				})
			}
		})
	}
	users.Wait()
	if n := m.Len(); n > size || n < size/2-size/mostShards {
		t.Errorf("%d entries, want about %d to %d", n, size/2, size)
	}
	if sum, _ := m.Get("all"); sum != 4*size {
		t.Errorf("%d updates of one key are counted, want %d", sum, 4*size)
	}
	m.Clear()
	if _, ok := m.Get("all"); ok || m.Len() != 0 {
		t.Error("entries are left")
	}
}

// Once a key is known, it is looked up and set without an allocation.
func TestALookUpAllocatesNothing(t *testing.T) {
	m, key := New[string, int](1000), strconv.Itoa(42)
	if n := testing.AllocsPerRun(100, func() {
		m.Set(key, 1)
		m.Get(key)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
