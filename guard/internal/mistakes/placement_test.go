package mistakes

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Looking after a limiter's place costs a request no allocation, while it looks and after.
func TestLookingAfterThePlaceAllocatesNothing(t *testing.T) {
	p := NewPlacement(nil, Peer{Counts: true})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "*/*")
	look := func() {
		p.Look(r)
	}
	for _, running := range []bool{true, false} {
		if p.proxy.running() != running {
			t.Fatalf("it looks for a proxy: %t, want %t", !running, running)
		}
		if n := testing.AllocsPerRun(100, look); n != 0 {
			t.Errorf("%v allocations, want none; it looks for a proxy: %t", n, running)
		}
		for range lookedAt {
			look()
		}
	}
}
