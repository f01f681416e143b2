package policies

import (
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/guard"
)

// forgiveOwn lets a policy with a match be forgiven only by the handler that the match is about. A request may meet the policy by another
// reading of its path, and run another handler: one of all paths that answers "/login/" with 200 has seen no login. Strikes
// of such a request count.
func (c *chooser) forgiveOwn(own [][]guard.Policy, document *Document, sets [][]int) {
	for i, policies := range own {
		if len(document.Policies[i].Match) == 0 {
			continue
		}
		for j := range policies {
			strike := policies[j].Ban.Strike
			if strike == nil {
				continue
			}
			policies[j].Ban.Strike = func(r *http.Request, s guard.Served) int {
				strikes := strike(r, s)
				if strikes < 0 && !slices.ContainsFunc(c.chooseOwn(r), func(set int) bool { return set >= 0 && slices.Contains(sets[set], i) }) {
					return 0
				}
				return strikes
			}
		}
	}
}
