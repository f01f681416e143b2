package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/ratelimit/guard/guardrpc"
)

// callOf returns the call of a tool that the functions of policies are asked about.
func callOf(r *http.Request) *mcp.CallToolRequest {
	call, _ := guardrpc.Message(r.Context()).(*mcp.CallToolRequest)
	return call
}

// agentOf returns the agent that makes a call, as its token tells. A session would not do: an agent begins as many as it likes.
func agentOf(call *mcp.CallToolRequest) string {
	if call.Extra == nil || call.Extra.TokenInfo == nil {
		return ""
	}
	return call.Extra.TokenInfo.UserID
}

// pagesOf returns how many pages a call of the tool report wants. It reads them as the tool does.
func pagesOf(call *mcp.CallToolRequest) int {
	var wanted report
	if err := json.Unmarshal(call.Params.Arguments, &wanted); err != nil {
		return pages.Capacity() // the tool denies it
	}
	return wanted.Pages
}

// verify stands for your own authentication.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	agent, is := strings.CutPrefix(token, "token-of-")
	if !is {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: agent, Expiration: time.Now().Add(time.Hour)}, nil
}
