package dialect_test

import (
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/internal/dialect"
)

func TestDistinctName(t *testing.T) {
	for _, c := range []struct {
		taken []string
		want  string
	}{
		{nil, "a"},
		{[]string{"b"}, "a"},
		{[]string{"a"}, "a-2"},
		{[]string{"a", "a-2", "a-4"}, "a-3"},
	} {
		if got := dialect.DistinctName("a", func(name string) bool { return slices.Contains(c.taken, name) }); got != c.want {
			t.Errorf("beside %q it is %s, want %s", c.taken, got, c.want)
		}
	}
}
