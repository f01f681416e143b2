// Package given prepares requests for the functions that a program gives to a limiter, other than those of this module:
// the functions find path values, and the package notes whether they find keys.
package given

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
)

// Limiter decides about a request. The context of the request has it under [LimiterKey].
type Limiter interface {
	// SetPathValues gives a request the path values that a router has found, as far as they are known.
	SetPathValues(r *http.Request)
	// FoundNoKey is told of a key function that has found no key in any of its first requests.
	FoundNoKey(ctx context.Context, function Function, requests int)
}

// LimiterKey is the key of a [Limiter] in a context.
type LimiterKey struct{}

// Function says which function of a program is meant.
type Function struct{ Name, Line string }

// FunctionOf returns which function f is.
func FunctionOf(f any) Function {
	name, file, line := source(f)
	return Function{name, fmt.Sprintf("%s:%d", file, line)}
}

// Is reports whether a function is the program's, and not one of this module's packages.
func Is(f any) bool {
	_, file, _ := source(f)
	directory, inside := strings.CutPrefix(path.Dir(file), root)
	return strings.HasSuffix(file, "_test.go") || !inside || !IsLibrary(directory)
}

// IsLibrary reports whether a directory of this module, such as "/guard", belongs to the library that programs import. The
// others have programs and suites of tests.
func IsLibrary(directory string) bool {
	for _, other := range [...]string{"/bench", "/cmd", "/examples", "/guard/guardtest", "/proof"} {
		if directory == other || strings.HasPrefix(directory, other+"/") {
			return false
		}
	}
	return strings.HasPrefix(directory, "/")
}

// source returns where a function is written. A closure keeps its place where the function around it is inlined, but not
// its name.
func source(f any) (name, file string, line int) {
	pc := reflect.ValueOf(f).Pointer()
	function := runtime.FuncForPC(pc)
	if function == nil {
		return "", "", 0
	}
	file, line = function.FileLine(pc)
	return function.Name(), file, line
}

// root is the directory of this module. It is no directory if the program was built without the names of files.
var root = func() string {
	_, here, _, _ := runtime.Caller(0)
	directory, found := strings.CutSuffix(here, "/internal/given/given.go")
	if !found {
		return "\x00"
	}
	return directory
}()

// Prepare makes a request ready for a function of the program: [http.Request.PathValue] then returns the values that the
// router has found. It returns the limiter that decides about the request, or nil if none does.
func Prepare(r *http.Request) Limiter {
	limiter, _ := r.Context().Value(LimiterKey{}).(Limiter)
	if limiter != nil {
		limiter.SetPathValues(r)
	}
	return limiter
}

// firstRequests is in how many requests a key function has to find a key at least once. Some have none: probes, and clients
// that have not signed in.
const firstRequests = 100

// KeyFunc returns a key function of the program that is given a request with path values. The limiter is told if it has found no
// key in any of its first requests. missing reports whether a result is none.
func KeyFunc(f func(*http.Request) (string, error), missing func(string, error) bool) func(*http.Request) (string, error) {
	var left atomic.Int32
	left.Store(firstRequests)
	return func(r *http.Request) (string, error) {
		limiter := Prepare(r)
		key, err := f(r)
		if limiter != nil && left.Load() > 0 {
			switch {
			case !missing(key, err):
				left.Store(0)
			case left.Add(-1) == 0:
				limiter.FoundNoKey(r.Context(), FunctionOf(f), firstRequests)
			}
		}
		return key, err
	}
}
