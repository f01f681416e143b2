//go:build !race

// Thousands of files are read by one goroutine: make test runs it without the race detector, which takes five times as long.

package policies

import (
	"reflect"
	"slices"
	"testing"
)

// A file that is cut at any byte is an error, or says no other limit than the whole file: each of its policies is one of the whole, and the
// last of them lacks fields at most. None limits nothing.
func TestFileThatIsCut(t *testing.T) {
	accepted := 0
	for _, text := range append(examples(t), whole, matching) {
		all, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for end := range len(text) {
			cut := text[:end]
			d, err := Parse([]byte(cut))
			if err != nil {
				continue
			}
			accepted++
			if !slices.ContainsFunc(d.Policies, func(p Policy) bool { return !p.Shadow && d.limits(&p) }) {
				t.Errorf("it limits nothing:\n%s", cut)
			}
			if got, want := d.Limits, all.Limits; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(d.Plans, all.Plans) || !reflect.DeepEqual(d.Bans, all.Bans) { //nolint:govet // a limit has an error, which is the same one
				t.Errorf("limits %v, want %v, of\n%s", got, want, cut)
			}
			if !reflect.DeepEqual(listsOf(d), listsOf(all)) {
				t.Errorf("lists %v, want %v, of\n%s", d.Lists, all.Lists, cut)
			}
			for i := range d.Policies {
				got, want := reflect.ValueOf(d.Policies[i]), reflect.ValueOf(all.Policies[i])
				for f := range got.NumField() {
					if !got.Type().Field(f).IsExported() || reflect.DeepEqual(got.Field(f).Interface(), want.Field(f).Interface()) {
						continue
					}
					if last := i == len(d.Policies)-1; !last || !shorter(got.Field(f), want.Field(f)) {
						t.Errorf("%s of policy %d is %v, want %v, of\n%s", got.Type().Field(f).Name, i, got.Field(f), want.Field(f), cut)
					}
				}
			}
		}
	}
	if accepted < 20 {
		t.Errorf("%d prefixes make sense: the test tests nothing", accepted)
	}
}
