//go:build !race

// The search runs in one goroutine, and is ten times as slow under the race detector: make test runs it without.

package checked

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// always holds whatever happens to holders, processes and messages, while the store keeps its data and its clock.
var always = []law{
	atMostN, belief, atMostNBelieve, deadStaysDead, freeIsGranted, releaseRemovesOnlyItself, tokensGrow, shrinkingEvictsNobody,
}

// searches are the worlds, how many states each has, which laws hold in it, and which do not.
var searches = []struct {
	world  world
	states int
	hold   []law // which laws hold
	broken []law // which do not
}{
	{world{name: "one place, two holders", holders: 2, n: 1, lease: 3, ticks: 4, older: true}, 47_049, always, nil},
	{world{name: "one holder, a longer lease", holders: 1, n: 1, lease: 4, ticks: 9, older: true}, 15_127, always, nil},
	{world{name: "one place, three holders", holders: 3, n: 1, lease: 2, ticks: 3}, 45_277, always, nil},
	{world{name: "two places, three holders", holders: 3, n: 2, lease: 2, ticks: 3}, 98_280, always, nil},
	{world{name: "duplicates", holders: 2, n: 1, lease: 3, ticks: 4, duplicates: true}, 37_384, always, nil},
	{world{name: "slow clocks", holders: 2, n: 1, lease: 3, ticks: 3, drift: true}, 40_618, always, nil},
	{
		world{name: "crashes", holders: 2, n: 1, lease: 3, ticks: 5, crash: true, timed: true},
		42_496,
		append(slices.Clip(always), exactlyTheLease), nil,
	},
	{
		world{name: "crashes with two places", holders: 2, n: 2, lease: 3, ticks: 3, crash: true, timed: true},
		29_075,
		append(slices.Clip(always), exactlyTheLease), nil,
	},
	{world{name: "n shrinks", holders: 3, n: 2, lease: 2, ticks: 2, shrink: true}, 104_219, always, nil},
	{
		world{name: "the store's clock steps back", holders: 2, n: 1, lease: 3, ticks: 4, back: 2, timed: true},
		28_761,
		[]law{atMostN, belief, atMostNBelieve, freeIsGranted, releaseRemovesOnlyItself, tokensGrow},
		[]law{exactlyTheLease, deadStaysDead},
	},
	{
		world{name: "the store's clock steps forward", holders: 3, n: 1, lease: 2, ticks: 1, forward: 2},
		38_215,
		[]law{atMostN, nMoreBelieve, freeIsGranted, releaseRemovesOnlyItself, tokensGrow},
		[]law{belief, atMostNBelieve},
	},
	{
		world{name: "a failover", holders: 3, n: 1, lease: 3, ticks: 1, failovers: 1, outage: 1},
		52_135,
		[]law{atMostN, nMoreBelieve, freeIsGranted, releaseRemovesOnlyItself, tokensGrow},
		[]law{belief, atMostNBelieve},
	},
	{
		world{name: "two failovers", holders: 3, n: 1, lease: 2, failovers: 2},
		46_798,
		[]law{atMostN, nMoreBelieve},
		[]law{twiceNBelieve},
	},
	{
		world{name: "a failover that takes no time", holders: 2, n: 1, lease: 3, ticks: 1, failovers: 1},
		6_547,
		[]law{atMostN, nMoreBelieve},
		[]law{tokensGrow},
	},
	{
		world{name: "a failover, and a clock that steps back", holders: 2, n: 1, lease: 2, ticks: 2, failovers: 1, outage: 1, back: 2, resource: true},
		111_957,
		[]law{atMostN, nMoreBelieve},
		[]law{tokensGrow, servedInOrder, newestIsServed},
	},
	{
		world{name: "a resource", holders: 2, n: 1, lease: 3, ticks: 3, resource: true},
		35_530,
		[]law{servedInOrder, newestIsServed, rightfulIsServed},
		[]law{lateIsRefused},
	},
	{
		world{name: "a resource, and duplicates", holders: 2, n: 1, lease: 2, ticks: 2, resource: true, duplicates: true},
		68_698,
		[]law{servedInOrder, newestIsServed, rightfulIsServed},
		[]law{lateIsRefused},
	},
	{
		world{name: "a failover with two places", holders: 3, n: 2, lease: 2, failovers: 1},
		44_842,
		[]law{atMostN, nMoreBelieve},
		[]law{belief, atMostNBelieve},
	},
	{
		world{name: "a resource, and a failover", holders: 2, n: 1, lease: 3, ticks: 2, resource: true, failovers: 1, outage: 1},
		103_321,
		[]law{servedInOrder, newestIsServed, tokensGrow},
		[]law{rightfulIsServed, lateIsRefused},
	},
	{
		world{name: "a resource, and a clock that steps", holders: 2, n: 1, lease: 2, ticks: 2, resource: true, forward: 2, back: 1},
		59_493,
		[]law{servedInOrder, newestIsServed, tokensGrow},
		[]law{rightfulIsServed, lateIsRefused},
	},
	{
		world{name: "a resource with two places", holders: 2, n: 2, lease: 2, ticks: 3, resource: true},
		48_732,
		[]law{servedInOrder, newestIsServed},
		[]law{rightfulIsServed},
	},
}

// In every world each law holds in every state that can be reached, or breaks where it is said to.
func TestLawsHoldInEveryState(t *testing.T) {
	for _, s := range searches {
		t.Run(s.world.name, func(t *testing.T) {
			states, broken := explore(&s.world, s.hold)
			if broken != "" {
				t.Fatal(broken)
			}
			if states != s.states {
				t.Errorf("%d states, want %d: if the model was changed on purpose, change the number, here and in docs/spec/README.md", states, s.states)
			}
			for _, l := range s.broken {
				_, trace := explore(&s.world, []law{l})
				if trace == "" {
					t.Errorf("not broken: %s", l.name)
				}
				t.Log(trace)
			}
		})
	}
}

// docs/spec/README.md has the worlds, their numbers of states and the laws that do not hold in them.
func TestPageHasEveryWorld(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range searches {
		var broken []string
		for _, l := range s.broken {
			broken = append(broken, l.name)
		}
		w := &s.world
		row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d,%03d | %s |\n",
			w.name, w.n, w.holders, w.lease, w.ticks, s.states/1000, s.states%1000, strings.Join(broken, "; "))
		if !strings.Contains(string(page), row) {
			t.Errorf("there is no row %s", row)
		}
	}
}

// mistakes says which law each fault breaks, and in which world the search is to find that out.
var mistakes = []struct {
	fault  fault
	world  string
	broken law
}{
	{deadlineFromReply, "one place, two holders", belief},
	{deadlineFromSending, "one place, two holders", belief},
	{noMargin, "slow clocks", belief},
	{olderReplyCounts, "one holder, a longer lease", belief},
	{oneTooMany, "one place, two holders", atMostN},
	{twoSteps, "one place, two holders", atMostN},
	{cleanUpAfterCounting, "one place, two holders", freeIsGranted},
	{renewalAddsMissing, "one place, two holders", atMostN},
	{renewalOfDead, "one place, two holders", deadStaysDead},
	{renewalOfAll, "crashes with two places", exactlyTheLease},
	{releaseByCount, "one place, two holders", releaseRemovesOnlyItself},
	{releaseOfAll, "one place, two holders", releaseRemovesOnlyItself},
	{shrinkingEvicts, "n shrinks", shrinkingEvictsNobody},
	{tokenFromClock, "one place, two holders", tokensGrow},
	{tokenFromLast, "a failover", tokensGrow},
}

// The search notices every fault, by the law that the fault breaks.
func TestEveryFaultIsFound(t *testing.T) {
	missing := maps.Clone(faults)
	for _, m := range mistakes {
		delete(missing, m.fault)
		t.Run(faults[m.fault], func(t *testing.T) {
			for _, s := range searches {
				if s.world.name != m.world {
					continue
				}
				s.world.fault = m.fault
				_, trace := explore(&s.world, []law{m.broken})
				if !strings.HasPrefix(trace, "broken: "+m.broken.name) {
					t.Errorf("not found in %q", m.world)
				}
				t.Log(trace)
				return
			}
			t.Errorf("there is no world %q", m.world)
		})
	}
	for _, what := range missing {
		t.Errorf("never made: %s", what)
	}
}
