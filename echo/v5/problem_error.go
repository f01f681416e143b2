package ratelimit

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/echo/internal/routed"
	"github.com/weir-go/ratelimit/guard"
)

// ProblemError is the error that the middleware returns for a denied request.
// echo's error handler renders it as the problem document; one of your own finds it
// by [errors.As].
type ProblemError struct {
	// Problem is the problem document.
	Problem guard.Problem

	rendered atomic.Bool // as JSON
}

// denied returns the error of a denied request. Where that is rendered as it is, the
// response has the media type of a problem.
func denied(c *echo.Context, problem guard.Problem) error {
	err := &ProblemError{Problem: problem}
	response, unwrapErr := echo.UnwrapResponse(c.Response())
	if unwrapErr != nil { // something else has been put in its place, which tells of nothing
		c.Response().Header().Set(echo.HeaderContentType, guard.ProblemType)
		return err
	}
	head := c.Request().Method == http.MethodHead
	response.Before(func() { routed.SetType(response.Header(), err.rendered.Load(), head, guard.ProblemType) })
	return err
}

// Error implements error.
func (e *ProblemError) Error() string { return "ratelimit: " + e.Problem.Title }

// StatusCode makes it an [echo.HTTPStatusCoder].
func (e *ProblemError) StatusCode() int { return e.Problem.Status }

// MarshalJSON returns the problem document.
func (e *ProblemError) MarshalJSON() ([]byte, error) {
	e.rendered.Store(true)
	return json.Marshal(e.Problem)
}
