//go:build !race

// The search runs in one goroutine, and is ten times as slow under the race detector: make test runs it without.

package checkedgrants

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// searches are the worlds, and how many states each has.
var searches = []struct {
	world  world
	states int
}{
	{world{name: "a meter", counts: meter, n: 2, lasts: 2, most: 2, ticks: 3}, 98_055},
	{world{name: "a meter, and crashes", counts: meter, n: 2, lasts: 2, most: 1, ticks: 2, crash: true}, 11_608},
	{world{name: "a meter, and slow clocks", counts: meter, n: 1, lasts: 2, most: 1, ticks: 3, drift: true}, 31_686},
	{world{name: "a meter, and a clock that steps forward", counts: meter, n: 1, lasts: 2, most: 1, ticks: 3, forward: 1}, 88_008},
	{world{name: "a meter, and a clock that steps back", counts: meter, n: 1, lasts: 2, most: 1, ticks: 4, back: 2}, 202_640},
	{world{name: "a window", counts: window, n: 2, length: 3, lasts: 2, most: 1, ticks: 5}, 136_826},
	{world{name: "a log", counts: log, n: 2, length: 3, lasts: 2, most: 1, ticks: 5}, 238_162},
}

// step is how the search came to a state first.
type step struct {
	from   int32
	action action
}

// search visits every state of a world, breadth first. It returns how many there are, the least distance to the bound, and the
// shortest trace to a state beyond it, or "".
func search(w *world) (count int, nearest int8, broken string) {
	nearest = -128
	states, steps := []state{{}}, []step{{from: -1}}
	visited := map[state]struct{}{{}: {}}
	for i := 0; i < len(states) && broken == ""; i++ {
		from := states[i]
		w.next(&from, func(a action, to state) {
			if slices.Compare(key(&to.of[0]), key(&to.of[1])) > 0 { // processes differ in their names alone
				to.of[0], to.of[1] = to.of[1], to.of[0]
			}
			if _, seen := visited[to]; seen || broken != "" {
				return
			}
			visited[to] = struct{}{}
			states, steps = append(states, to), append(steps, step{int32(i), a})
			if nearest = max(nearest, w.excess(&to)); !w.bound(&to) {
				broken = tell(steps)
			}
		})
	}
	return len(states), nearest, broken
}

// key orders processes.
func key(p *process) []int8 {
	bit := map[bool]int8{true: 1}
	return []int8{p.units, p.spent, p.sent, p.charged, p.since, bit[p.asking], p.asked, p.slow, bit[p.dead]}
}

// tell tells the steps that lead to the last state.
func tell(steps []step) string {
	var lines []string
	for i := int32(len(steps) - 1); steps[i].from >= 0; i = steps[i].from {
		lines = append(lines, steps[i].action.String())
	}
	slices.Reverse(lines)
	return strings.Join(lines, ", ")
}

// In every world the bound holds in every state that can be reached, and some state reaches it.
func TestBoundHoldsInEveryState(t *testing.T) {
	for _, s := range searches {
		t.Run(s.world.name, func(t *testing.T) {
			states, nearest, broken := search(&s.world)
			if broken != "" {
				t.Fatalf("more than the bound: %s", broken)
			}
			if states != s.states {
				t.Errorf("%d states, want %d: if the model was changed on purpose, change the number", states, s.states)
			}
			if nearest != 0 {
				t.Errorf("what is spent comes to %d of the bound, and never reaches it", nearest)
			}
		})
	}
}

// mistakes says in which world the search is to find a fault.
var mistakes = map[fault]string{
	deadlineFromReply: "a meter",
	noMargin:          "a meter, and slow clocks",
	noMeter:           "a log",
	acrossWindows:     "a window",
	returnsSpent:      "a meter",
	spendsReturned:    "a meter",
	lostCounts:        "a meter",
	renewedLocally:    "a meter",
	carriedOver:       "a meter",
}

// The search notices every fault.
func TestEveryFaultIsFound(t *testing.T) {
	missing := maps.Clone(faults)
	for made, name := range mistakes {
		delete(missing, made)
		t.Run(faults[made], func(t *testing.T) {
			for _, s := range searches {
				if s.world.name != name {
					continue
				}
				s.world.fault = made
				if _, _, broken := search(&s.world); broken == "" {
					t.Errorf("not found in %q", name)
				} else {
					t.Log(broken)
				}
				return
			}
			t.Errorf("there is no world %q", name)
		})
	}
	for _, what := range missing {
		t.Errorf("never made: %s", what)
	}
}
