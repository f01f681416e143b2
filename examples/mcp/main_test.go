package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/ratelimit/core"
)

// service is the server, on a clock of its own.
type service struct {
	t     *testing.T
	url   string
	clock atomic.Int64 // nanoseconds
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{t: t}
	began := time.Now().Truncate(time.Hour)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return began.Add(time.Duration(s.clock.Load())) })))
	server := httptest.NewServer(newHandler(limiter))
	s.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = limiter.Close()
	})
	return s
}

// asAgent sends the token of an agent with each request.
type asAgent string

func (agent asAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer token-of-"+string(agent))
	return http.DefaultTransport.RoundTrip(r)
}

// session begins a session of an agent's.
func (s *service) session(agent string) *session {
	s.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: asAgent(agent)}, DisableStandaloneSSE: true}
	own, err := client.Connect(context.WithoutCancel(s.t.Context()), transport, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = own.Close() })
	return &session{own, s.t}
}

type session struct {
	*mcp.ClientSession

	t *testing.T
}

// use calls a tool, and returns the text of the result.
func (s *session) use(tool string, arguments any) (text string, result *mcp.CallToolResult) {
	s.t.Helper()
	result, err := s.CallTool(s.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), nil
	}
	return result.Content[0].(*mcp.TextContent).Text, result
}

// Each agent has a limit for each tool, in all of its sessions, and the result tells the model and the program when to try again.
func TestToolsAreLimited(t *testing.T) {
	s := start(t)
	alice, again := s.session("alice"), s.session("alice")
	for i := range 5 {
		if text, result := []*session{alice, again}[i%2].use("search", nil); result == nil || result.IsError {
			t.Errorf("call %d: %s", i, text)
		}
	}
	s.clock.Add(int64(200*time.Millisecond + time.Microsecond))
	text, result := again.use("search", nil)
	if result == nil || !result.IsError || text != "The limit of calls is used up. Try again in 1.8s." || result.Meta["retryAfterMs"] != 1800.0 {
		t.Fatalf("%s, %+v", text, result)
	}
	if text, result := alice.use("report", map[string]any{"subject": "rain", "pages": 1}); result == nil || result.IsError {
		t.Errorf("another tool: %s", text)
	}
	if text, result := s.session("bob").use("search", nil); result == nil || result.IsError {
		t.Errorf("another agent: %s", text)
	}
	s.clock.Add(int64(1800 * time.Millisecond))
	if text, result := alice.use("search", nil); result == nil || result.IsError {
		t.Errorf("after the wait: %s", text)
	}
}

// A call costs as much as it asks for, and one that no wait can help says so.
func TestCallsCostWhatTheyAskFor(t *testing.T) {
	alice := start(t).session("alice")
	for _, test := range []struct {
		pages int
		want  string
	}{
		{99, "99 pages about rain"},
		{2, "The limit of pages is used up. Try again in 1h0m0s."},
		{1, "1 pages about rain"},
		{101, "The call asks for more than the limit of pages ever allows. Ask for less."},
		{-5, "The limit of pages is used up. Try again in 1h0m0s."},
	} {
		if text, result := alice.use("report", map[string]any{"subject": "rain", "pages": test.pages}); text != test.want || result.IsError != strings.HasPrefix(text, "The") {
			t.Errorf("%d pages: %s, %+v", test.pages, text, result)
		}
	}
}

// A call whose arguments the tool rejects costs no pages.
func TestRejectedCallsCostNoPages(t *testing.T) {
	s := start(t)
	alice := s.session("alice")
	for _, arguments := range []string{`{"subject": 7, "pages": 90}`, `{"pages": 90}`, `{"subject": "rain", "pages": 90, "colour": true}`} {
		if text, result := alice.use("report", json.RawMessage(arguments)); result != nil && !result.IsError {
			t.Errorf("%s: %s", arguments, text)
		}
	}
	if text, _ := alice.use("report", map[string]any{"subject": "rain", "pages": 100}); text != "100 pages about rain" {
		t.Error(text)
	}
}

// However a client writes the number of pages, it pays for those that it gets.
func TestSpellingsOfTheCost(t *testing.T) {
	for _, arguments := range []string{
		`{"subject": "rain", "pages": 90, "Pages": 1}`, `{"subject": "rain", "Pages": 1, "pages": 90}`, `{"subject": "rain", "pages": 1, "pages": 90}`,
		`{"subject": "rain", "pages": 90, "pages": 1}`, `{"subject": "rain", "pages": 9e1}`, `{"subject": "rain", "PAGES": 90}`, `{"subject": "rain", "pages": "90"}`,
		`{"subject": "rain", "pages": 90.0}`, `{"subject": "rain", "pages": 18446744073709551706}`,
	} {
		alice := start(t).session("alice")
		alice.use("report", map[string]any{"subject": "rain", "pages": 90})
		if text, _ := alice.use("report", json.RawMessage(arguments)); strings.HasPrefix(text, "90 pages") {
			t.Errorf("%s: %s", arguments, text)
		}
	}
}

// However a client writes the name of a tool, it finds no limit that has not been used yet.
func TestMadeUpToolsCountTogether(t *testing.T) {
	alice := start(t).session("alice")
	for range 5 {
		alice.use("search", nil)
	}
	for i, name := range []string{"Search", "search/", "x/../search", "%73earch", "search ", "search"} {
		text, result := alice.use(name, nil)
		if result != nil && !result.IsError {
			t.Errorf("%q has run a tool: %s", name, text)
		}
		if denied := strings.Contains(text, "is used up"); denied != (i == 5) {
			t.Errorf("%q: %s", name, text)
		}
	}
	if text, _ := alice.use("yet another", nil); !strings.Contains(text, "is used up") {
		t.Errorf("the sixth name that is made up: %s", text)
	}
}
