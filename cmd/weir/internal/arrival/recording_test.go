package arrival_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// replayed is the part of a request that a second pass needs.
type replayed struct {
	at     int64
	path   uint64
	agent  string
	status uint16
}

// byKey is a Sink that keeps the requests of each key.
type byKey map[uint64][]replayed

func (s byKey) Second(arrivals []arrival.Arrival) {
	for _, a := range arrivals {
		s[a.Hash] = append(s[a.Hash], replayed{a.Instant, a.Path, a.Agent, a.Status})
	}
}

// hostile returns a log whose lines stand in no order, name a second only, have wrong years, no key, or cannot be read.
func hostile(random *rand.Rand, lines int) string {
	var log strings.Builder
	at := 0.0
	for range lines {
		at += []float64{0, 0.001, 0.4, 3, 40}[random.IntN(5)]
		when := at
		switch random.IntN(40) {
		case 0:
			when -= 15 + 60*random.Float64() // too late
		case 1:
			when -= 8 * random.Float64()
		case 2:
			when += 4e8
		case 3:
			log.WriteString(`{"ts":` + strings.Repeat("1", random.IntN(30)) + "\n")
			continue
		}
		line := exact(fmt.Sprint("key", random.IntN(20)), max(when, 0))
		if random.IntN(3) == 0 {
			line = strings.Replace(line, `.`, `.000000,"then":`, 1)
		}
		if random.IntN(20) == 0 {
			line = strings.Replace(line, `"remote_addr"`, `"address"`, 1)
		}
		line = strings.Replace(line, "/a", fmt.Sprint("/", random.IntN(9)), 1)
		log.WriteString(strings.Replace(line, "}", fmt.Sprintf(`,"user_agent":"agent %d"}`, random.IntN(5)), 1))
	}
	return log.String()
}

// A recording has the requests that a second reading of the logs has, whatever these say, and each at the same instant.
func TestRecordingIsASecondReading(t *testing.T) {
	late, skipped, aside := int64(0), int64(0), int64(0)
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 3))
		files := []string{file(t, hostile(random, 1+random.IntN(4000))), file(t, hostile(random, 1+random.IntN(4000)))}
		route, err := arrival.NewRoute("/1", "/2", "/3", "/4")
		if err != nil {
			t.Fatal(err)
		}
		options := arrival.Options{Workers: 1 + random.IntN(3), Keep: func(uint64) arrival.Part { return arrival.All }}
		if seed%2 == 1 {
			options.Route = route
		}
		first := byKey{}
		recording := arrival.NewRecording(first, 1<<20)
		summary, err := arrival.Read(t.Context(), files, options, nil, recording)
		if err != nil || !recording.Whole() {
			t.Fatalf("whole: %v, %v", recording.Whole(), err)
		}
		late, skipped, aside = late+summary.Late, skipped+summary.Skipped, aside+summary.Aside
		var progress arrival.Progress
		sinks := []arrival.Sink{byKey{}, byKey{}}
		if err = recording.Play(t.Context(), &progress, 99, sinks...); err != nil {
			t.Fatal(err)
		}
		if lines, bytes := progress.Lines.Load(), progress.Bytes.Load(); lines != summary.Arrivals || bytes != 99 {
			t.Errorf("%d lines and %d bytes, want %d and 99", lines, bytes, summary.Arrivals)
		}
		if err = recording.Close(); err != nil {
			t.Error(err)
		}
		again := byKey{}
		options.Keep = func(hash uint64) arrival.Part {
			if hash%3 == 0 {
				return arrival.All
			}
			return arrival.None
		}
		if _, err = arrival.Read(t.Context(), files, options, nil, again); err != nil {
			t.Fatal(err)
		}
		for key, want := range first {
			for _, sink := range sinks {
				if got := sink.(byKey)[key]; !slices.Equal(got, want) {
					t.Errorf("seed %d: %d requests of a key were recorded, and %d read", seed, len(got), len(want))
				}
			}
			if got := again[key]; key%3 == 0 && !slices.Equal(got, want) {
				t.Errorf("seed %d: %d requests of a key the second time, and %d the first time", seed, len(got), len(want))
			}
		}
	}
	if late == 0 || skipped == 0 || aside == 0 {
		t.Errorf("%d late, %d skipped, %d aside: the logs are too good", late, skipped, aside)
	}
}

// A recording that would be too large, or has no place, is none, and what it hands on is whole.
func TestRecordingGivesUp(t *testing.T) {
	const many = 70_000
	for name, most := range map[string]int64{"too long": 100_000, "too many agents": arrival.MostRecorded, "no place": arrival.MostRecorded, "fits": arrival.MostRecorded} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			if name == "no place" {
				place = filepath.Join(place, "missing")
			}
			t.Setenv("TMPDIR", place) // of Unix
			t.Setenv("TMP", place)    // of Windows
			var next collected
			recording := arrival.NewRecording(&next, most)
			for i := range many {
				a := arrival.Arrival{Instant: int64(i), Hash: 1}
				if name == "too many agents" {
					a.AgentHash = uint64(i)
				}
				recording.Second([]arrival.Arrival{a})
			}
			if recording.Whole() != (name == "fits") || len(next.all) != many {
				t.Errorf("whole: %v, %d handed on", recording.Whole(), len(next.all))
			}
			if err := recording.Close(); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(place); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
