package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/llmproxy/estimate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a proxy, and the model behind it, which end with their test.
type service struct {
	t       *testing.T
	model   *httptest.Server
	url     string
	limiter *core.Limiter
	answers *estimate.Estimate
	end     func()
}

func start(t *testing.T, patience time.Duration) *service {
	t.Helper()
	return startBefore(t, parrot, patience)
}

func startBefore(t *testing.T, speak http.HandlerFunc, patience time.Duration) *service {
	t.Helper()
	model := httptest.NewServer(speak)
	target, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s := &service{t: t, model: model, answers: estimate.New(estimate.Options{}), limiter: core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, newProxy(s.limiter, s.answers, target, "key-of-ours"), patience) }()
	s.end = func() {
		interrupt()
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.end()
		model.Close()
	})
	return s
}

// ask sends a request of alice's, and returns the answer as it begins.
func (s *service) ask(ctx context.Context, model string, most int) *http.Response {
	s.t.Helper()
	body := fmt.Sprintf(`{"model": %q, "max_tokens": %d, "n": 10, "messages": [{"role": "user", "content": "Hello"}]}`, model, most)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key-of-alice")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return response
}

// spent returns how many tokens alice has spent, when that is no more than a bound.
func (s *service) spent(most int) int {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		d, err := s.limiter.Peek(s.t.Context(), "user:alice", tokens)
		if err != nil {
			s.t.Fatal(err)
		}
		if spent := tokens.Capacity() - d.Remaining; spent <= most {
			return spent
		} else if time.Now().After(deadline) {
			s.t.Fatalf("%d tokens are spent, and stay so", spent)
		}
	}
}

func text(t *testing.T, response *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

const promptTokens = 10 // of ask's, as the proxy guesses them

func TestAnAnswerPaysWhatTheModelSays(t *testing.T) {
	s := start(t, patience)
	response := s.ask(t.Context(), "parrot", 50)
	if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("RateLimit-Policy"), `"tokens";q=2000;qu="tokens"`) {
		t.Errorf("answered %s with %v", response.Status, response.Header)
	}
	if body := text(t, response); strings.Count(body, "squawk") != 50 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream is %q", body)
	}
	if spent := s.spent(60); spent != 57 {
		t.Errorf("spent %d", spent)
	}
}

func TestAClientThatLeavesPaysWhatWasStreamed(t *testing.T) {
	s := start(t, patience)
	ctx, leave := context.WithCancel(t.Context())
	lines := bufio.NewScanner(s.ask(ctx, "parrot", 1000).Body)
	for range 20 { // ten words, and the lines between them, long before the end of the answer
		lines.Scan()
	}
	if reserved := s.spent(2000); reserved < 1000 {
		t.Errorf("%d are reserved while it is streamed", reserved)
	}
	leave()
	if spent := s.spent(900); spent < promptTokens+10 {
		t.Errorf("spent %d", spent)
	}
}

func TestAClientThatLeavesBeforeTheFirstWordPaysThePrompt(t *testing.T) {
	asked := make(chan struct{})
	s := startBefore(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done() // it thinks until the proxy leaves
	}, patience)
	for n := 1; n <= 3; n++ {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			body := strings.NewReader(`{"model": "parrot", "max_tokens": 500, "messages": [{"role": "user", "content": "Hello"}]}`)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", body)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer key-of-alice")
			if response, err := http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
				t.Errorf("answered %s", response.Status)
			}
		}()
		<-asked
		if reserved := s.spent(2000); reserved < 500 {
			t.Errorf("%d are reserved while the model thinks", reserved)
		}
		leave()
		<-left
		if spent := s.spent(n * promptTokens); spent != n*promptTokens {
			t.Errorf("%d clients have left: spent %d", n, spent)
		}
	}
}

func TestWhatDoesNotReachTheModelCostsNothing(t *testing.T) {
	s := start(t, patience)
	s.model.Close()
	if response := s.ask(t.Context(), "parrot", 500); response.StatusCode != http.StatusBadGateway {
		t.Errorf("answered %s", response.Status)
	}
	if spent := s.spent(0); spent != 0 {
		t.Errorf("spent %d", spent)
	}
}

func TestAModelThatBreaksOffIsPaidForWhatWasStreamed(t *testing.T) {
	s := start(t, patience)
	if _, err := io.ReadAll(s.ask(t.Context(), "broken", 1000).Body); err == nil {
		t.Error("the stream ends well")
	}
	if spent := s.spent(900); spent != promptTokens+10 {
		t.Errorf("spent %d", spent)
	}
}

func TestWhatTheModelRefusesCostsNothing(t *testing.T) {
	s := start(t, patience)
	response := s.ask(t.Context(), "eagle", 1000)
	if body := text(t, response); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "no such model") {
		t.Errorf("answered %s %q", response.Status, body)
	}
	s.spent(0)
}

func TestTheLimits(t *testing.T) {
	s := start(t, patience)
	if _, err := s.limiter.Charge(t.Context(), "user:alice", tokens, 1500); err != nil {
		t.Fatal(err)
	}
	response := s.ask(t.Context(), "parrot", 500) // and the prompt
	if body := text(t, response); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "60" || !strings.Contains(body, `["tokens"]`) {
		t.Errorf("beyond the budget: %s %q %v", response.Status, body, response.Header)
	}
	for range 20 { // what was denied has cost nothing
		if response := s.ask(t.Context(), "eagle", 1); response.StatusCode != http.StatusNotFound {
			t.Fatalf("within the limits: %s %q", response.Status, text(t, response))
		}
	}
	response = s.ask(t.Context(), "eagle", 1)
	if body := text(t, response); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "3" || !strings.Contains(body, `["requests"]`) {
		t.Errorf("the request too many: %s %q %v", response.Status, body, response.Header)
	}
	if response := s.ask(t.Context(), "parrot", 1001); response.StatusCode != http.StatusBadRequest {
		t.Errorf("more than an answer may have: %s", response.Status)
	}
	stranger, err := http.DefaultClient.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Body.Close()
	if stranger.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s", stranger.Status)
	}
}

func TestTheEndWaitsForStreams(t *testing.T) {
	s := start(t, patience)
	stream := s.ask(t.Context(), "parrot", 20)
	go s.end()
	if body := text(t, stream); !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream is %q", body)
	}
	if spent := s.spent(60); spent != 27 {
		t.Errorf("spent %d", spent)
	}
}

func TestAStreamThatIsCutAtTheEndPaysWhatWasStreamed(t *testing.T) {
	s := start(t, 50*time.Millisecond)
	stream := s.ask(t.Context(), "parrot", 1000)
	s.end()
	d, err := s.limiter.Peek(t.Context(), "user:alice", tokens) // not later: the program ends now
	if spent := tokens.Capacity() - d.Remaining; err != nil || spent < promptTokens || spent > 500 {
		t.Errorf("spent %d, %v", spent, err)
	}
	if _, err := io.ReadAll(stream.Body); err == nil {
		t.Error("the stream ends well")
	}
}

// short has the proxy expect short answers.
func (s *service) short() {
	for range 20 {
		s.answers.Learn("parrot", 1000, 20)
	}
}

func TestAnAnswerReservesMoreAsItGoes(t *testing.T) {
	s := start(t, patience)
	s.short()
	stream := s.ask(t.Context(), "parrot", 300)
	if reserved := s.spent(100); reserved > promptTokens+6+step { // when the answer begins
		t.Errorf("%d are reserved for an answer that is expected to be short", reserved)
	}
	if body := text(t, stream); strings.Count(body, "squawk") != 300 || !strings.Contains(body, ": tokens: 307 used, 1693 left\n: budget: 307 used, 49693 left\n") {
		t.Errorf("the stream is %q", body)
	}
	if spent := s.spent(310); spent != 307 {
		t.Errorf("spent %d", spent)
	}
}

func TestAnAnswerIsCutAtTheBudget(t *testing.T) {
	for _, limit := range []core.Quota{tokens, budget} {
		s := start(t, patience)
		s.short()
		if _, err := s.limiter.Charge(t.Context(), "user:alice", limit, limit.Capacity()-150); err != nil {
			t.Fatal(err)
		}
		body := text(t, s.ask(t.Context(), "parrot", 1000))
		words := strings.Count(body, "squawk")
		if words < 80 || words > 150-promptTokens || !strings.Contains(body, `"rate_limit_exceeded"`) || !strings.Contains(body, limit.Name()+" are used up") {
			t.Errorf("%d words, and the stream is %q", words, body)
		}
		if !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("the stream does not end: %q", body)
		}
		d, err := s.limiter.Peek(t.Context(), "user:alice", limit)
		if left := 150 - promptTokens - words; err != nil || d.Remaining != left {
			t.Errorf("%d are left, %v, want %d", d.Remaining, err, left)
		}
	}
}

func TestStreamsAtOnceAreLimited(t *testing.T) {
	s := start(t, patience)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range streams.Capacity() {
		s.ask(ctx, "parrot", 500)
	}
	response := s.ask(t.Context(), "parrot", 500)
	if body := text(t, response); response.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, `"streams"`) {
		t.Errorf("one more: %s %q", response.Status, body)
	}
	if reserved := s.spent(2000); reserved > 1200 {
		t.Errorf("%d are reserved: one that was denied has reserved some", reserved)
	}
}
