package telemetry

import (
	"runtime/debug"
	"strings"
)

// modulePath and scope are this module and this package. Instruments and spans are said
// to come from the scope, at the module's version.
const (
	modulePath = "github.com/weir-go/ratelimit"
	scope      = modulePath + "/telemetry"
)

// moduleVersion returns the version of this module that the program was built with, such
// as "1.2.3", or "" if the program does not know. The build says it, and not a constant,
// so that it is right for every commit, and for a fork that takes the module's place.
func moduleVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionIn(build)
}

func versionIn(build *debug.BuildInfo) string {
	for _, module := range append([]*debug.Module{&build.Main}, build.Deps...) {
		if module.Path != modulePath {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		return strings.TrimPrefix(module.Version, "v")
	}
	return ""
}
