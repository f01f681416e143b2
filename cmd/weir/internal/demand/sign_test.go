//go:build !race

package demand

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// Each sign is seen alone, by what it is the sign of.
func TestSigns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	crawler, guesser, steady := Key{Requests: 1000}, Key{Requests: 1000}, Key{Requests: 1200}
	for i := range 1000 {
		crawler.marks.add(&arrival.Arrival{Path: random.Uint64()})
		guesser.marks.add(&arrival.Arrival{Path: 1 << 60})
		steady.marks.add(&arrival.Arrival{Path: uint64(i%50) * 0x9e3779b97f4a7c15})
	}
	steady.marks.minutes, steady.Peak[0] = [2]uint32{120, 2}, 15
	for want, k := range map[Sign]*Key{Crawling: &crawler, Guessing: &guesser, Steady: &steady} {
		if got := k.signs(); got != want {
			t.Errorf("signs %q, want %q", got, want)
		}
	}
}

// A sign counts if its key is far above what nine of ten keys have at most, in its busiest hour or on its busiest day. A busy customer is not.
func TestSignsCountFarAboveTheOthers(t *testing.T) {
	const others, inHour, inDay = 20, 10, 50
	for _, c := range []struct {
		name      string
		hour, day uint32
		want      Sign
	}{
		{"as busy as the others", inHour, inDay, 0},
		{"nearly ten times as busy", 10*inHour - 1, 10*inDay - 1, 0},
		{"ten times as busy in an hour", 10 * inHour, 10*inDay - 1, Guessing},
		{"ten times as busy on a day", 10*inHour - 1, 10 * inDay, Guessing},
	} {
		guesser := &Key{Requests: manyRequests, Peak: [3]uint32{1, c.hour, c.day}}
		guesser.marks.add(&arrival.Arrival{Path: 1 << 60})
		d := &Demand{Requests: 100 * manyRequests, Keys: []*Key{guesser}}
		for range others {
			d.Keys = append(d.Keys, &Key{Requests: inDay, Peak: [3]uint32{1, inHour, inDay}})
		}
		for w := range windows {
			peaks := make([]uint32, 0, len(d.Keys))
			for _, k := range d.Keys {
				peaks = append(peaks, k.Peak[w])
			}
			d.Peaks[w] = newDistribution(peaks)
		}
		d.judge()
		if guesser.Signs != c.want {
			t.Errorf("%s: %q, want %q", c.name, guesser.Signs, c.want)
		}
	}
}
