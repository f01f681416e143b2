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
			forgives := policies[j].Ban.Forgive
			if forgives == nil {
				continue
			}
			policies[j].Ban.Forgive = func(r *http.Request, s guard.Served) bool {
				return forgives(r, s) && slices.ContainsFunc(c.chooseOwn(r), func(set int) bool { return set >= 0 && slices.Contains(sets[set], i) })
			}
		}
	}
}
