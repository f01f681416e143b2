package simulate

import (
	"testing"
	"time"
)

// However long a log is, its series counts each request in its time.
func TestSeries(t *testing.T) {
	var s Series
	first := time.Date(2026, 3, 2, 8, 0, 30, 0, time.UTC)
	total := uint64(0)
	for _, step := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for i := range 300 {
			s.add(first.Add(time.Duration(i)*step).UnixMicro(), i%3 == 0)
			total++
		}
		var sum uint64
		for _, p := range s.Points {
			sum += p.Admitted + p.Denied
		}
		if sum != total || len(s.Points) > mostPoints || len(s.Points) < 40 {
			t.Errorf("%v: %d of %d requests in %d points of %v", step, sum, total, len(s.Points), s.Width)
		}
	}
	if s.Width != 7*24*time.Hour || s.Points[0].Denied < 100 {
		t.Errorf("width %v, %+v", s.Width, s.Points[0])
	}
	for range 10 {
		s.widen()
	}
	if len(s.Points) != 1 || s.Points[0].Admitted+s.Points[0].Denied != total {
		t.Errorf("%+v", s.Points)
	}
}
