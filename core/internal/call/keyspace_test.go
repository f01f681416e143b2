package call_test

import (
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// What is written is read back, except for a key that was hashed.
func TestKeysAreReadBack(t *testing.T) {
	for _, key := range []string{"user:42", "{a}:b}:", "é %", "#5", "", strings.Repeat("x", 96), strings.Repeat("x", 97), strings.Repeat("%", 33)} {
		for limit, algorithm := range map[string]string{"leaky:10:1/s": "leaky", "login": "fixed-window", "leaky:10": "gcra"} {
			for _, end := range []string{"", exact.ShadowSuffix} {
				name := call.AppendTag(nil, "app", key)
				derived := strings.HasPrefix(limit, algorithm)
				if derived {
					name = append(name, limit...)
				} else {
					name = append(name, algorithm+"="+limit...)
				}
				name = append(name, end...)
				got, ok := call.ParseName("app", string(name))
				hashed := strings.Contains(string(name), "#")
				want := call.NamedState{Key: key, Limit: limit, Algorithm: algorithm, Named: !derived, Shadow: end != "", Hashed: hashed}
				if hashed {
					want.Key = string(call.AppendSubject(nil, key))
				}
				if !ok || got != want {
					t.Errorf("%s is read as %+v, %t, want %+v", name, got, ok, want)
				}
				if _, ok := call.ParseName("app", string(name)+call.ReservedSuffix); ok {
					t.Errorf("%s passes for a state", string(name)+call.ReservedSuffix)
				}
				if _, ok := call.ParseName("ap", string(name)); ok {
					t.Errorf("%s is read under another prefix", name)
				}
			}
		}
	}
}

func TestKeysOfOthersAreNotRead(t *testing.T) {
	for _, name := range []string{"", "app", "app:{a", "app:{a}", "app:{a}:", "app:{%zz}:leaky:10:1/s", "app:{a}:leaky="} {
		if state, ok := call.ParseName("app", name); ok {
			t.Errorf("%q is read as %+v", name, state)
		}
	}
}

// What is kept in memory is told apart as Redis keys are.
func TestShortKeysAreRestored(t *testing.T) {
	for key, hashed := range map[string]bool{
		"user:42": false, "#5": false, "##": false, strings.Repeat("x", 96): false, strings.Repeat("x", 97): true, strings.Repeat("é", 17): true,
	} {
		got, is := call.Restore(call.Shorten(key))
		want := key
		if hashed {
			want = string(call.AppendSubject(nil, key))
		}
		if got != want || is != hashed {
			t.Errorf("%q is restored as %q, hashed: %t", key, got, is)
		}
	}
}
