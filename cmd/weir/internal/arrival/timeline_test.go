package arrival

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"time"
)

// instants is a Sink that keeps the instants of each key.
type instants struct {
	of    map[uint64][]int64
	parts int
}

func (s *instants) Second(arrivals []Arrival) {
	s.parts++
	for i := range arrivals {
		s.of[arrivals[i].Hash] = append(s.of[arrivals[i].Hash], arrivals[i].Instant)
	}
}

// Requests that take more room than there is are handed over before their time, and none is lost or leaves its second.
func TestCrowdedSeconds(t *testing.T) {
	for _, exact := range []bool{false, true} {
		sink := &instants{of: make(map[uint64][]int64)}
		tl := newTimeline(sink, time.Second)
		tl.most = 100_000
		const each, keys = 3000, 3
		text, start, behind := bytes.Repeat([]byte("k"), 200), int64(100*Second), 0
		for i := range int64(each) {
			for key := range uint64(keys) {
				a := Arrival{Key: text, Hash: key, Instant: start, Whole: !exact}
				if exact {
					a.Instant += i % 1000 * 1000
				}
				tl.add(&a)
				behind = max(behind, tl.waiting)
			}
		}
		tl.add(&Arrival{Instant: start + Second, Key: text, Hash: 9})
		tl.add(&Arrival{Instant: start + 20*Second, Key: text, Hash: 9})
		tl.end()
		if !tl.crowded || behind > tl.most+1000 || sink.parts < 10 || exact != (tl.late > 0) {
			t.Errorf("exact %v: crowded %v, %d bytes wait, %d parts, %d late", exact, tl.crowded, behind, sink.parts, tl.late)
		}
		for key := range uint64(keys) {
			all := sink.of[key]
			if len(all) != each || !slices.IsSorted(all) || all[0] < start || all[each-1] >= start+Second {
				t.Errorf("exact %v: %d requests of a key from %d to %d", exact, len(all), all[0], all[len(all)-1])
			}
			if !exact && slices.Index(all, all[each-1]) < each/2 {
				t.Errorf("half of the requests of a key are at %d", all[each-1])
			}
		}
		if got := sink.of[9]; !slices.Equal(got, []int64{start + Second, start + 20*Second}) {
			t.Errorf("those behind it are at %v", got)
		}
	}
}

// Of many seconds, the oldest are handed over first.
func TestCrowdedTimeline(t *testing.T) {
	sink := &instants{of: make(map[uint64][]int64)}
	tl := newTimeline(sink, time.Minute)
	tl.most = 100_000
	for i := range int64(2000) {
		tl.add(&Arrival{Hash: 1, Instant: i * Second / 10, Key: []byte(strconv.FormatInt(i, 10))})
	}
	tl.add(&Arrival{Hash: 2, Instant: 150 * Second}) // fifty seconds behind
	tl.end()
	if got := sink.of[1]; len(got) != 2000 || !slices.IsSorted(got) || !tl.crowded || tl.waiting != 0 {
		t.Errorf("%d requests, crowded %v, %d bytes wait", len(got), tl.crowded, tl.waiting)
	}
	if tl.late != 1 || tl.worst != 49 {
		t.Errorf("%d late by up to %d s", tl.late, tl.worst)
	}
}
