package ratelimit_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
)

func TestAnErrorHandlerIsGivenTheProblem(t *testing.T) {
	var handled []error
	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		handled = append(handled, err)
		var denied *ratelimit.ProblemError
		if !errors.As(err, &denied) {
			t.Fatalf("handled a %T, want a *ProblemError", err)
		}
		_ = c.String(echo.StatusCode(err), err.Error()+": "+strings.Join(denied.Problem.ViolatedPolicies, ","))
	}
	e.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	e.GET("/", ok)
	get(e, "/")
	w := get(e, "/")
	if want := "ratelimit: Request cannot be satisfied as assigned quota has been exceeded: one"; len(handled) != 1 || w.Code != http.StatusTooManyRequests || w.Body.String() != want {
		t.Errorf("handled %v, answered %d %q, want one error and the handler's answer", handled, w.Code, w.Body)
	}
	if got := w.Header().Get("Retry-After"); got != "3600" {
		t.Errorf("Retry-After is %q, want 3600", got)
	}
}

// However the client asks, and however echo renders, it is for the error handler to say
// what the client reads.
func TestAnErrorHandlerIsGivenEveryDenial(t *testing.T) {
	var problems []string
	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		var denied *ratelimit.ProblemError
		if !errors.As(err, &denied) {
			t.Fatalf("handled a %T, want a *ProblemError", err)
		}
		problem := denied.Problem
		problems = append(problems, strings.Join(problem.ViolatedPolicies, ","))
		_ = c.HTML(http.StatusTooManyRequests, "<h1>later</h1>")
	}
	e.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	e.GET("/", ok)
	get(e, "/")
	for _, visit := range [][]string{{"/"}, {"/?pretty"}, {"/", "Accept: text/plain"}, {"/", "Accept: text/plain;q=1, */*;q=0.1"}} {
		problems = nil
		w := get(e, visit[0], visit[1:]...)
		if !slices.Equal(problems, []string{"one"}) || w.Body.String() != "<h1>later</h1>" || w.Header().Get("Content-Type") != "text/html; charset=UTF-8" {
			t.Errorf("%q: handled %q, answered %q, want the handler's answer in HTML", visit, problems, w.Body)
		}
	}
}

func TestADenialIsAnsweredOnce(t *testing.T) {
	hook := func(w http.ResponseWriter, _ *http.Request, _ *ratelimit.Denial) { _, _ = w.Write([]byte("denied\n")) }
	for name, c := range map[string]struct {
		options ratelimit.Options
		lines   []string
		native  bool
	}{
		"problem": {native: true},
		"text":    {lines: []string{"Accept: text/plain"}, native: true},
		"hook":    {options: ratelimit.Options{Denied: hook}},
		"silent":  {options: ratelimit.Options{Denied: func(http.ResponseWriter, *http.Request, *ratelimit.Denial) {}}},
	} {
		t.Run(name, func(t *testing.T) {
			var returned error
			after, ran := 0, 0
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					response, err := echo.UnwrapResponse(c.Response())
					if err != nil {
						t.Fatal(err)
					}
					response.After(func() { after++ })
					returned = next(c)
					if returned != nil {
						c.Echo().HTTPErrorHandler(c, returned) // as echo's own logger does: handled before echo does
					}
					return returned
				}
			})
			e.Use(ratelimit.New(memory(), c.options, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour)}))
			e.GET("/", func(*echo.Context) error { ran++; return nil })
			get(e, "/")
			w := get(e, "/", c.lines...)
			if got := returned != nil; got != c.native {
				t.Errorf("the middleware returned %v, want an error to be %v", returned, c.native)
			}
			if ran != 1 {
				t.Errorf("the handler ran %d times, want 1", ran)
			}
			if n := strings.Count(w.Body.String(), "\n"); n > 1 || after > 1 {
				t.Errorf("answered more than once: %q", w.Body)
			}
		})
	}
}
