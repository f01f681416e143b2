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
