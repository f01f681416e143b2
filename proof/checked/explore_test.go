package checked

import (
	"fmt"
	"strings"
)

// step is how the search came to a state first: from which state, and by which action.
type step struct {
	from   int32
	action action
}

// explore visits every state of w, breadth first, and checks the laws on every state and step. It returns how many
// states there are, and the shortest trace that breaks a law, or "".
func explore(w *world, laws []law) (count int, broken string) {
	first := w.first()
	states := []state{first}
	steps := []step{{from: -1}}
	visited := map[state]struct{}{first: {}}
	for i := 0; i < len(states) && broken == ""; i++ {
		from := states[i]
		w.next(&from, func(a action, to state) {
			if broken != "" {
				return
			}
			_, seen := visited[to]
			for _, l := range laws {
				if l.ofStep != nil && !l.ofStep(w, &from, &to, a) || l.ofState != nil && !seen && !l.ofState(w, &to) {
					broken = tell(l, states, append(steps, step{int32(i), a}), to)
					return
				}
			}
			if !seen {
				visited[to] = struct{}{}
				states = append(states, to)
				steps = append(steps, step{int32(i), a})
			}
		})
	}
	return len(states), broken
}

// tell tells the trace that ends with the last of steps, in words.
func tell(l law, states []state, steps []step, last state) string {
	var lines []string
	for i := int32(len(steps) - 1); steps[i].from >= 0; i = steps[i].from {
		after := last
		if int(i) < len(states) {
			after = states[i]
		}
		lines = append(lines, fmt.Sprintf("%-55v %v", steps[i].action, after))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "broken: %s\n", l.name)
	for i := range lines {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, lines[len(lines)-1-i])
	}
	return b.String()
}
