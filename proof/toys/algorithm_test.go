package toys

import (
	"slices"
	"strings"
	"testing"
)

// The arithmetic of a new algorithm is a file of its own.
const toyArithmetic = `package exact

// toy is the arithmetic of a toy: a bucket that leaks.
type toy struct{ meter }
`

const toyConstructor = `
// Toy returns a limit of the toy algorithm.
func Toy(capacity int, drain Rate) Quota { return quota(exact.Toy, capacity, drain) }
`

// A new algorithm takes its arithmetic, its scripts, its model, a constructor and a row. All laws hold for it then, on every
// store, and no other file knows it.
func TestAnAlgorithmTakesFivePlaces(t *testing.T) {
	o := overlay{"core/internal/exact/toy.go": toyArithmetic}
	for _, script := range []string{"modules/", "check/", "settle/"} {
		leaky := read(t, "core/internal/script/lua/"+script+"leaky.lua")
		o["core/internal/script/lua/"+script+"toy.lua"] = strings.ReplaceAll(leaky, "last_leak", "last_play")
	}
	o.insert(t, "core/storetest/algorithms.go", "	{name: \"leaky\", limit: core.Leaky, fresh: metered{}, owes: true},\n", "	{name: \"toy\", limit: core.Toy, fresh: metered{}},\n")
	o["core/algorithms.go"] = read(t, "core/algorithms.go") + toyConstructor
	row := "core/internal/exact/algorithm.go"
	o.insert(t, row, "	Calendar\n", "	Toy\n")
	o.insert(t, row, "	Leaky:       {name: \"leaky\", arithmetic: meter{}, observed: 1, next: \"next drip\", grants: Steady, shared: true, owes: true},\n",
		"	Toy: {name: \"toy\", arithmetic: toy{}, observed: 1, next: \"next play\", grants: Steady},\n")

	want := []string{
		"core/algorithms.go", "core/internal/exact/algorithm.go", "core/internal/exact/toy.go", "core/internal/script/lua/check/toy.lua",
		"core/internal/script/lua/modules/toy.lua", "core/internal/script/lua/settle/toy.lua", "core/storetest/algorithms.go",
	}
	if !slices.Equal(o.touched(), want) {
		t.Errorf("the toy takes %q, want %q", o.touched(), want)
	}
	const laws = 100
	o.test(t, laws, "./core", "-test.run", "^(TestMemoryKeepsTheLaws|TestRedisKeepsTheLaws)$//^toy$", "-rapid.checks=10")
	const both = 4 // tests, with a subtest for the toy
	o.test(t, both, "./core/internal/redisstore", "-test.run", "^TestPlain(Checks|Settlements)Are/^toy$")
}
