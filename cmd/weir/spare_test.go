package main

import "testing"

// Who sets the collector of garbage is left alone.
func TestSpareMemoryUnlessTheCollectorIsSet(t *testing.T) {
	for name, want := range map[string]int{"GOGC": 0, "GOMEMLIMIT": 0, "REDIS_URL": spareMemory} {
		lookup := func(asked string) (string, bool) { return "100", asked == name }
		if got := len(spare(lookup)); got != want {
			t.Errorf("with %s it takes %d bytes, want %d", name, got, want)
		}
	}
}
