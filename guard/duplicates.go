package guard

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/weir-go/ratelimit/core"
)

// built is where in the program limits by the default key were built: those without a
// name, which are one limit if their numbers are the same. What it knows of a Limiter goes
// when the Limiter does.
var built = struct {
	mu sync.Mutex
	by map[weak.Pointer[core.Limiter]]*builtBy
}{by: make(map[weak.Pointer[core.Limiter]]*builtBy)}

// builtBy is where limits of one Limiter were built.
type builtBy struct {
	places map[builtLimit]string
	warned bool
}

// builtLimit is what equal limits have in common.
type builtLimit struct {
	limit  core.Limit
	shadow bool
}

const (
	equalLimits = "ratelimit: two middlewares have the same limit and the same key, and no name: they are one limit, and count for each other"
	apart       = `PolicyFor(core.Leaky(10, core.PerSecond(1)).Named("search")), or keyfuncs.RemoteIP, keyfuncs.Route as the key`
	together    = "the same name for both, or one middleware for both"
)

// mostBuilt bounds the limits that are remembered of a Limiter, for programs that build
// ever new ones.
const mostBuilt = 1000

// warnOfEqual warns, once for each Limiter, if middleware has a policy that another line
// of the program has given to other middleware: they count for each other, which nothing
// in the program says. The same line may build it as often as it likes: a program that
// builds its handlers anew, such as a test, means the same limit.
//
//nolint:contextcheck,nolintlint // at start-up there is no request; seen where it is called
func warnOfEqual(l *core.Limiter, o *Options, policies []Policy) {
	var here string
	for i := range policies {
		p := &policies[i]
		if p.By != nil || p.LimitFor != nil || named(p.Limit) || p.Limit == core.Unlimited {
			continue
		}
		if here == "" {
			here = caller()
		}
		first, equal := remember(l, builtLimit{p.Limit, p.Shadow}, here)
		if !equal {
			continue
		}
		warn(context.Background(), o.Logger, equalLimits,
			slog.String("limit", p.Limit.Name()), slog.String("first", first), slog.String("second", here),
			slog.String("to_keep_them_apart_write", apart), slog.String("if_they_are_meant_to_be_one_write", together))
		return
	}
}

// remember remembers where a limit was built, and returns where it was built before, if
// that is another place, of which nobody has been warned.
func remember(l *core.Limiter, limit builtLimit, here string) (before string, elsewhere bool) {
	built.mu.Lock()
	defer built.mu.Unlock()
	id := weak.Make(l)
	by := built.by[id]
	if by == nil {
		by = &builtBy{places: make(map[builtLimit]string)}
		built.by[id] = by
		runtime.AddCleanup(l, forget, id)
	}
	before, known := by.places[limit]
	switch {
	case by.warned:
	case known && before != here:
		by.warned, by.places = true, nil
		return before, true
	case !known && len(by.places) < mostBuilt:
		by.places[limit] = here
	}
	return "", false
}

func forget(id weak.Pointer[core.Limiter]) {
	built.mu.Lock()
	defer built.mu.Unlock()
	delete(built.by, id)
}

// adapters are the packages through which a program builds middleware.
var adapters = func() []string {
	own := reflect.TypeFor[Guard]().PkgPath()
	module := own[:strings.LastIndexByte(own, '/')]
	return []string{own, module + "/nethttp", module + "/gin", module + "/echo", module + "/echo/v5"}
}()

// caller returns the file and the line of the program that builds middleware: the nearest
// caller that is no adapter.
func caller() string {
	counters := make([]uintptr, 16)
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters)])
	for {
		frame, more := frames.Next()
		if !more || !slices.Contains(adapters, packageOf(frame.Function)) {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}

// packageOf returns the path of the package of a function: it ends at the first dot
// behind the last slash.
func packageOf(function string) string {
	last := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[last:], ".")
	return function[:last] + name
}
