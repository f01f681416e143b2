//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"context"
	"errors"
	"go/ast"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The way of a warm call is as short as it was: what a plain check does not need, it does not pass.
func TestTheWayOfACallIsShort(t *testing.T) {
	program := filepath.Join(t.TempDir(), "journey")
	covered := []string{module + "internal/budgets/journey"} // which resets the counters
	for _, file := range sources(t) {
		if own := module + file.directory(); !slices.Contains(covered, own) {
			covered = append(covered, own)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./journey")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "covdata").Output()
	if err != nil {
		t.Fatal(err)
	}
	covdata := strings.TrimSpace(string(found))
	url := "redis://" + redistest.Start(t).Addr()
	for _, journey := range []string{"Allow", "Acquire and Release", "nethttp.Leaky", "a request with Settle"} {
		directory := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), program, journey, url, directory).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", journey, err, out)
		}
		runs, err := filepath.Glob(filepath.Join(directory, "*"))
		if err != nil || len(runs) == 0 {
			t.Fatal(runs, err)
		}
		var shortest []string
		files := math.MaxInt
		for _, run := range runs { // some have met what goes on behind a call
			functions, in := executed(t, covdata, run)
			if files = min(files, in); shortest == nil || len(functions) < len(shortest) {
				shortest = functions
			}
		}
		keep(t, journey+": functions", len(shortest), 3)
		keep(t, journey+": files", files, 1)
		t.Logf("%s: %d functions in %d files\n%s", journey, len(shortest), files, strings.Join(shortest, "\n"))
	}
}

// executed returns which functions of the library have run, and in how many files, by the counters in a directory, which the
// program covdata reads.
func executed(t *testing.T, covdata, directory string) (functions []string, files int) {
	t.Helper()
	profile := filepath.Join(directory, "profile")
	if out, err := exec.CommandContext(t.Context(), covdata, "textfmt", "-i="+directory, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string][]int) // the lines at which blocks begin that have run
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // file.go:12.3,14.5 statements count
		path, block, ok := strings.Cut(fields[0], ".go:")
		if !ok || fields[len(fields)-1] == "0" {
			continue
		}
		first, _, _ := strings.Cut(block, ".")
		at, err := strconv.Atoi(first)
		if err != nil {
			t.Fatal(line, err)
		}
		path = strings.TrimPrefix(path, module) + ".go"
		ran[path] = append(ran[path], at)
	}
	for _, file := range sources(t) {
		blocks := ran[file.path]
		before := len(functions)
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Body != nil {
				begin, end := file.set.Position(function.Pos()).Line, file.set.Position(function.End()).Line
				for _, at := range blocks {
					if begin <= at && at <= end {
						functions = append(functions, file.path+" "+function.Name.Name)
						break
					}
				}
			}
		}
		if len(functions) > before {
			files++
		}
	}
	return functions, files
}

// hooked is a hook of a client that counts the frames above a call.
type hooked struct{ frames int }

func (h *hooked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hooked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hooked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		stack := make([]uintptr, 100)
		h.frames = 0
		frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack)])
		for frame, more := frames.Next(); more && !strings.HasSuffix(frame.Function, "/budgets.TestFewCallsLieBetweenARequestAndTheClient"); frame, more = frames.Next() {
			if name, ours := strings.CutPrefix(frame.Function, module); ours && !strings.HasPrefix(name, "internal/budgets") {
				h.frames++
			}
		}
		return next(ctx, command)
	}
}

// From ServeHTTP to the client of Redis are few frames.
func TestFewCallsLieBetweenARequestAndTheClient(t *testing.T) {
	client := redis.NewClient(&redis.Options{
		Addr: redistest.Start(t).Addr(), Dialer: core.Dialer(nil), ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	own := new(hooked)
	client.AddHook(own)
	limiter := core.New(core.NewRedis(client, core.WithBudget(10*time.Second)))
	handler := ratelimit.Leaky(limiter, 1000, core.PerSecond(1000))(http.NotFoundHandler())
	for range 10 { // the first calls open connections, and wait for them
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}
	keep(t, "nethttp.Leaky: frames from ServeHTTP to the client of Redis", own.frames, 0)
	if err := errors.Join(limiter.Close(), client.Close()); err != nil {
		t.Error(err)
	}
}
