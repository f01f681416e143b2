package ratelimit_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo"
	"github.com/weir-go/ratelimit/guard"
)

func TestAnErrorHandlerIsGivenTheProblem(t *testing.T) {
	var handled []error
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = append(handled, err)
		var he *echo.HTTPError
		if !errors.As(err, &he) {
			t.Fatalf("handled a %T, want an *echo.HTTPError", err)
		}
		problem, ok := he.Message.(*ratelimit.Document)
		if !ok {
			t.Fatalf("the message is a %T, want a *Document", he.Message)
		}
		_ = c.String(he.Code, "no: "+strings.Join(problem.ViolatedPolicies, ","))
	}
	e.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	e.GET("/", ok)
	get(e, "/")
	w := get(e, "/")
	if len(handled) != 1 || w.Code != http.StatusTooManyRequests || w.Body.String() != "no: one" {
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
	e.Debug = true
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		var denied *echo.HTTPError
		if !errors.As(err, &denied) {
			t.Fatalf("handled a %T, want an *echo.HTTPError", err)
		}
		problem, _ := denied.Message.(*ratelimit.Document)
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
				return func(c echo.Context) error {
					c.Response().After(func() { after++ })
					returned = next(c)
					if returned != nil {
						c.Error(returned) // as echo's own logger does: handled before echo does
					}
					return returned
				}
			})
			e.Use(ratelimit.New(memory(), c.options, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour)}))
			e.GET("/", func(echo.Context) error { ran++; return nil })
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

// echo indents its own errors in the same way.
func TestTheDocumentIsIndentedWhereEchoIndents(t *testing.T) {
	e := echo.New()
	e.Use(ratelimit.FixedWindow(memory(), 1, time.Hour))
	e.GET("/", ok)
	get(e, "/")
	var plain, pretty guard.Problem
	for path, problem := range map[string]*guard.Problem{"/": &plain, "/?pretty": &pretty} {
		w := get(e, path)
		if err := json.Unmarshal(w.Body.Bytes(), problem); err != nil || w.Header().Get("Content-Type") != guard.ProblemType {
			t.Errorf("%s: %v, %q", path, err, w.Header())
		}
	}
	if plain.Status != http.StatusTooManyRequests || !reflect.DeepEqual(plain, pretty) {
		t.Errorf("%+v and %+v, want the same problem", plain, pretty)
	}
}
