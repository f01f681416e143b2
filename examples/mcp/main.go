// Command mcp is a server of the Model Context Protocol, with limits for each agent on all servers together: 5 calls of each tool at once and then one
// every two seconds, and 100 pages of reports an hour, of which a call says how many it wants. A call that the tool rejects costs no pages.
//
// A call that is denied is a result with isError, as the protocol wants it of errors that a model can learn from: its text says when to try again, and its
// _meta says it to programs, {"retryAfterMs": 1800}.
//
//	go run .                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run .    # counts for a whole fleet
//
// Agents speak to http://localhost:8080/ with a bearer token such as token-of-alice.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var (
	calls = core.Leaky(5, core.PerMinute(30)).Named("calls")
	pages = core.FixedWindow(100, time.Hour).Named("pages")
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	server := &http.Server{ // no WriteTimeout: it would cut every stream
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           newHandler(limiter),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // for the whole request, which is over when the stream begins
		IdleTimeout:       time.Minute,
	}
	context.AfterFunc(interrupted, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
	stop()
	_ = limiter.Close()
}

// report is the question to the tool of that name.
type report struct {
	Subject string `json:"subject"`
	Pages   int    `json:"pages"`
}

// newHandler returns the service with its limits.
func newHandler(limiter *core.Limiter) http.Handler {
	agent := keyfuncs.User(func(r *http.Request) string { return agentOf(callOf(r)) })
	limits := guard.Must(guard.New(limiter, guard.Options{},
		guard.Policy{Limit: calls, By: keyfuncs.Join(agent, keyfuncs.Route)},
		guard.Policy{
			Limit: pages, By: agent, Skip: func(r *http.Request) bool { return callOf(r).Params.Name != "report" },
			Cost:   func(r *http.Request) int { return max(1, pagesOf(callOf(r))) },
			Settle: guard.SettlePolicy{Cost: paid},
		}))
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "search", Description: "finds books"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return said("nothing found"), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "report", Description: "writes a report"},
		func(_ context.Context, _ *mcp.CallToolRequest, of report) (*mcp.CallToolResult, any, error) {
			return said(fmt.Sprintf("%d pages about %s", of.Pages, of.Subject)), nil, nil
		})
	server.AddReceivingMiddleware(limited(limits, "search", "report"))
	return auth.RequireBearerToken(verify, nil)(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}

// limited returns a middleware that has a Guard decide about each call of a tool. Calls of other tools than these count together: a client makes
// their names up.
func limited(g *guard.Guard, tools ...string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
			call, is := request.(*mcp.CallToolRequest)
			if !is {
				return next(ctx, method, request)
			}
			asked := guardrpc.Call{Procedure: "/tools/" + call.Params.Name, Unknown: !slices.Contains(tools, call.Params.Name), Message: call}
			if call.Extra != nil { // there is none over standard input
				asked.Header = call.Extra.Header
			}
			verdict, _ := guardrpc.Decide(guard.AsOwn(ctx), g, asked)
			if verdict.Denial != nil {
				return denied(verdict.Denial), nil
			}
			guardrpc.Serve(verdict, func(ctx context.Context) (code uint32) {
				result, err = next(ctx, method, request)
				if said, is := result.(*mcp.CallToolResult); err != nil || is && said.IsError {
					return 2 // UNKNOWN, for policies with a Settle
				}
				return 0
			})
			return result, err
		}
	}
}

// paid returns what a call costs in the end: nothing if the tool has rejected it, or has failed.
func paid(_ *http.Request, served guard.Served) int {
	if served.Status != http.StatusOK {
		return 0
	}
	return served.Cost
}

// denied returns the result of a call that may not be made.
func denied(denial *guard.Denial) *mcp.CallToolResult {
	result := said("The limits cannot be asked at the moment. Try again later.")
	switch limits := strings.Join(denial.ViolatedPolicies, " and of "); {
	case denial.Status != http.StatusTooManyRequests:
	case denial.RetryAfter == core.Never:
		result = said(fmt.Sprintf("The call asks for more than the limit of %s ever allows. Ask for less.", limits))
	default:
		wait := (denial.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
		result = said(fmt.Sprintf("The limit of %s is used up. Try again in %v.", limits, wait))
		result.Meta = mcp.Meta{"retryAfterMs": wait.Milliseconds()}
	}
	result.IsError = true
	return result
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
