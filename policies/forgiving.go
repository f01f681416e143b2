package policies

import (
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/guard"
)

// forgiveOwn keeps a request from forgiving that meets a policy, perhaps, by another reading of its path alone. A handler of all paths that
// answers "/login/" with 200 has not seen a login that succeeds. Such a request strikes as any other.
func (c *chooser) forgiveOwn(own [][]guard.Policy, document *Document, sets [][]int) {
	for i, policies := range own {
		if len(document.Policies[i].Match) == 0 {
			continue
		}
		for j := range policies {
			strike := policies[j].Strike
			if strike == nil {
				continue
			}
			policies[j].Strike = func(r *http.Request, s guard.Served) int {
				strikes := strike(r, s)
				if strikes < 0 && !slices.ContainsFunc(c.chooseOwn(r), func(set int) bool { return set >= 0 && slices.Contains(sets[set], i) }) {
					return 0
				}
				return strikes
			}
		}
	}
}
