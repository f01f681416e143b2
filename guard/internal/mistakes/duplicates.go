package mistakes

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/given"
)

// built is where in the program unnamed limits by the default key were built: they
// are one limit if their numbers are the same. The entry of a Limiter goes
// when the Limiter does.
var built = struct {
	mu sync.Mutex
	by map[weak.Pointer[core.Limiter]]*builtBy
}{by: make(map[weak.Pointer[core.Limiter]]*builtBy)}

// builtBy is where limits of one Limiter were built.
type builtBy struct {
	places map[Limit]string
	warned bool
}

// Limit identifies an unnamed limit by the default key: equal ones count for each other.
type Limit struct {
	Limit  core.Limit
	Shadow bool
}

const (
	equalLimits = "ratelimit: two middlewares have the same limit and the same key, and no name: they are one limit, and count for each other"
	apart       = `PolicyFor(core.Leaky(10, core.PerSecond(1)).Named("search")), or keyfuncs.RemoteIP, keyfuncs.Route as the key`
	together    = "the same name for both, or one middleware for both"
)

// mostBuilt bounds the limits that are remembered of a Limiter, for programs that build
// ever new ones.
const mostBuilt = 1000

// WarnOfEqual warns, once for each Limiter, if one of the limits of middleware has been given to other
// middleware by another line of the program: they count for each other, and no line of the program
// says so. The same line may build it as often as it likes: a program that builds its handlers anew, such
// as a test, means the same limit. The logger may be nil, which is the default one.
//
//nolint:contextcheck,nolintlint // at start-up there is no request; seen where it is called
func WarnOfEqual(l *core.Limiter, logger *slog.Logger, limits []Limit) {
	if len(limits) == 0 {
		return
	}
	here := caller()
	for _, limit := range limits {
		first, equal := remember(l, limit, here)
		if !equal {
			continue
		}
		warn(context.Background(), logger, equalLimits,
			slog.String("limit", limit.Limit.Name()), slog.String("first", first), slog.String("second", here),
			slog.String("to_keep_them_apart_write", apart), slog.String("if_they_are_meant_to_be_one_write", together))
		return
	}
}

// remember remembers where a limit was built, and returns where it was built before, if
// that is another place, and no warning has told it.
func remember(l *core.Limiter, limit Limit, here string) (before string, elsewhere bool) {
	built.mu.Lock()
	defer built.mu.Unlock()
	id := weak.Make(l)
	by := built.by[id]
	if by == nil {
		by = &builtBy{places: make(map[Limit]string)}
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

// module is the path of this module.
var module, _, _ = strings.Cut(reflect.TypeFor[Limit]().PkgPath(), "/guard/")

// isLibrary reports whether a package belongs to the library through which a program builds middleware.
func isLibrary(path string) bool {
	directory, inside := strings.CutPrefix(path, module)
	return inside && !strings.HasSuffix(path, "_test") && given.IsLibrary(directory)
}

// caller returns the file and the line of the program that builds middleware: the nearest
// caller outside of the library.
func caller() string {
	counters := make([]uintptr, 16)
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters)])
	for {
		frame, more := frames.Next()
		if !more || !isLibrary(packageOf(frame.Function)) {
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
