package telemetry

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	other := &debug.Module{Path: "github.com/weir-go/ratelimiter", Version: "v9.9.9"}
	for name, test := range map[string]struct {
		build debug.BuildInfo
		want  string
	}{
		"a dependency":          {debug.BuildInfo{Deps: []*debug.Module{other, {Path: modulePath, Version: "v1.2.3"}}}, "1.2.3"},
		"a commit":              {debug.BuildInfo{Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0-20261121171128-8bdd3d4c0ffe"}}}, "0.0.0-20261121171128-8bdd3d4c0ffe"},
		"this module's program": {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v1.2.3+dirty"}, Deps: []*debug.Module{other}}, "1.2.3+dirty"},
		"a fork in its place": {debug.BuildInfo{Deps: []*debug.Module{
			{Path: modulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}},
		}}, "1.2.4"},
		"a directory in its place": {debug.BuildInfo{Deps: []*debug.Module{
			{Path: modulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "../ratelimit", Version: "(devel)"}},
		}}, "(devel)"},
		"a build that does not say": {debug.BuildInfo{Main: debug.Module{Path: "example.com/shop", Version: "v3.2.1"}, Deps: []*debug.Module{other}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := versionIn(&test.build); got != test.want {
				t.Errorf("version %q, want %q", got, test.want)
			}
		})
	}
}
