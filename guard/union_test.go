package guard

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Clients choose which unions are asked for, and do not fill the memory with them.
func TestUnionsThatAreKeptHaveABound(t *testing.T) {
	rules := Rules{Choose: func(*http.Request, keyfuncs.Matched) []int { return nil }}
	for i := range 60 {
		rules.Policies = append(rules.Policies, []Policy{{Limit: core.Leaky(1, core.PerDay(1)).Named(fmt.Sprint("l", i)), By: keyfuncs.Global}})
		rules.Sets = append(rules.Sets, []int{i})
	}
	first, err := newGenerationOfRules(nil, core.New(core.NewMemory()), Options{}, rules)
	if err != nil {
		t.Fatal(err)
	}
	unions := first.sets.unions
	for i := range 60 {
		for j := range i {
			g := unions.of([]int{i, j})
			if g != unions.of([]int{j, i}) {
				t.Fatalf("sets %d and %d have two generations", i, j)
			}
			if kept := len(unions.built); kept > mostUnions {
				t.Fatalf("%d unions are kept, want at most %d", kept, mostUnions)
			}
		}
	}
}
