package ratelimit

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/echo/internal/routed"
	"github.com/weir-go/ratelimit/guard"
)

// Document is the Message of the [echo.HTTPError] that the middleware returns for a denied
// request: a [guard.Problem], which echo's error handler renders.
type Document struct {
	guard.Problem

	rendered atomic.Bool // as JSON
}

// denied returns the error of a denied request. Where its document is rendered as it is,
// the response has the media type of a problem.
func denied(c echo.Context, problem guard.Problem) error {
	document, response, head := &Document{Problem: problem}, c.Response(), c.Request().Method == http.MethodHead
	response.Before(func() { routed.SetType(response.Header(), document.rendered.Load(), head, guard.ProblemType) })
	return echo.NewHTTPError(problem.Status, document)
}

// String returns the problem's title, for logs.
func (d *Document) String() string { return d.Title }

// MarshalJSON returns the problem document.
func (d *Document) MarshalJSON() ([]byte, error) {
	d.rendered.Store(true)
	return json.Marshal(d.Problem)
}
