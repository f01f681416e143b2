package replay

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// Several parts count what one counts.
func TestPartsCountWhatOneCounts(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		at := int64(1_772_409_600_000_000)
		var all []arrival.Arrival
		for range 3000 {
			at += random.Int64N(1 << random.IntN(30))
			key := []byte(fmt.Sprint("key", min(random.IntN(20), random.IntN(20))))
			all = append(all, arrival.Arrival{
				Instant: at, Key: key, Hash: arrival.Hash(key), Path: random.Uint64(), Status: 200, Agent: fmt.Sprint("agent", random.IntN(10)),
			})
		}
		tracker := demand.NewTracker(0)
		tracker.Second(all)
		found := tracker.Demand()
		proposals := []demand.Proposal{{Cell: demand.Cell{Rate: 14, Burst: 2}}, {Cell: demand.Cell{Rate: 20, Burst: 20}}}
		counted := func(parts int, apart bool) *Replay {
			r := inParts(found, proposals, time.UTC, parts)
			if !apart {
				r.Second(all)
				return r
			}
			for _, part := range r.Parts() {
				part.Second(all)
			}
			return r
		}
		one := counted(1, false)
		if len(one.Subjects()) < 2 || len(one.Days()) == 0 {
			t.Fatalf("seed %d: too little is denied", seed)
		}
		for _, parts := range []int{2, 7} {
			several := counted(parts, parts == 7)
			for i, c := range one.cells {
				if got, want := several.Cell(c.Cell), one.Cell(c.Cell); got != want {
					t.Errorf("seed %d, %d parts, cell %d: %+v, want %+v", seed, parts, i, got, want)
				}
			}
			if got, want := several.Days(), one.Days(); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d, %d parts: days differ", seed, parts)
			}
			got, want := several.Subjects(), one.Subjects()
			if len(got) != len(want) {
				t.Fatalf("seed %d, %d parts: %d subjects, want %d", seed, parts, len(got), len(want))
			}
			for i := range want {
				for p := range proposals {
					g, w := got[i].Verdicts[p], want[i].Verdicts[p]
					g.lastDay, w.lastDay = nil, nil
					if g != w || got[i].Key != want[i].Key {
						t.Errorf("seed %d, %d parts, subject %d: %+v, want %+v", seed, parts, i, g, w)
					}
				}
				g, w := got[i].Evidence, want[i].Evidence
				if g.Hours != w.Hours || g.Statuses != w.Statuses || g.Others != w.Others || !reflect.DeepEqual(g.Agents, w.Agents) {
					t.Errorf("seed %d, %d parts, subject %d: %+v, want %+v", seed, parts, i, g, w)
				}
			}
		}
	}
}
