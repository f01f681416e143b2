// Llmproxy stands between users and a language model, and limits each user:
//
//   - to 20 requests and 2,000 tokens a minute, 2 streams at once, and 50,000 tokens a month, all
//     decided in one round trip;
//   - a request reserves as much as answers of its model have lately cost, in proportion to its max_tokens;
//   - the answer is streamed (server-sent events). It reserves more as it goes, and is cut where a budget
//     ends, with an error as its last event;
//   - it is charged its real cost: the tokens that the model counts or, if the client leaves or the model breaks
//     off, the prompt and the streamed tokens. A comment before its end tells the remaining ones;
//   - the prompt is paid as soon as the model is sent it, also by a client that leaves before the first word;
//   - a request that the model refuses, or that does not reach it, costs no tokens;
//   - OpenAI's and Anthropic's SDKs find their own fields for all that, and retry when it helps and not before;
//   - tokens beyond the month's budget are owed, and the next month pays for them: the model was paid, too;
//   - if this process dies, the tokens that its streams had reserved of a minute are back five minutes later. Of the
//     month it stays paid, since the model was paid, too;
//   - at the end, streams in flight may go on for half a minute; then they are cut, and pay for
//     the streamed tokens.
//
// The model is in this program, too. It speaks as OpenAI's chat completions do, says as many
// words as it may, and breaks off if it is called "broken".
//
//	go run ./examples/llmproxy                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/llmproxy    # counts for a whole fleet
//	MODEL_URL=https://api.openai.com MODEL_KEY=… go run ./examples/llmproxy
//
//	curl -iN localhost:8080/v1/chat/completions -H 'Authorization: Bearer key-of-alice' \
//		-d '{"model": "parrot", "max_tokens": 300, "messages": [{"role": "user", "content": "Hello"}]}'
//
// Interrupt it in the middle, ask again, and read the remaining tokens in RateLimit.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/llmproxy/estimate"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

const (
	mostTokens    = 1000 // of an answer, and as many as a request has that does not say
	step          = 50   // tokens by which a stream reserves more
	longestBody   = 1 << 16
	patience      = 30 * time.Second // with streams in flight at the end
	longestSettle = 5 * time.Second  // when they have been cut
	longestStream = 5 * time.Minute
)

var (
	requests = core.Leaky(20, core.PerMinute(20)).Named("requests")
	tokens   = core.FixedWindow(2000, time.Minute).Named("tokens")
	streams  = core.Concurrent(2, 30*time.Second).Named("streams")
	budget   = core.Calendar(50_000, core.Monthly("UTC")).WithDebt(5_000).Named("budget") // the next month pays for an answer that was longer than reserved
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	model := os.Getenv("MODEL_URL")
	if model == "" {
		listener := listen("localhost:0")
		model = "http://" + listener.Addr().String()
		standIn := &http.Server{Handler: http.HandlerFunc(parrot), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
		go standIn.Serve(listener)
	}
	target, err := url.Parse(model)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	listener := listen(cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	log.Printf("listening on http://%s", listener.Addr())
	if err := serve(ctx, listener, newProxy(limiter, estimate.New(estimate.Options{}), target, os.Getenv("MODEL_KEY")), patience); err != nil {
		log.Print(err)
	}
	_ = limiter.Close() // settles open reservations
}

func listen(addr string) net.Listener {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

// serve serves until the context ends, and then until all streams have ended or were cut.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, patience time.Duration) error {
	streaming, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{ // no WriteTimeout: it would cut every stream
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // for the whole request, which is over when the stream begins
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return streaming },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	defer time.AfterFunc(patience, cut).Stop()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+longestSettle)
	defer cancel()
	return server.Shutdown(ending)
}

// newProxy returns the handler for users: it reads the user and the request, then come the limits, then the model.
func newProxy(limiter *core.Limiter, answers *estimate.Estimate, model *url.URL, key string) http.Handler {
	user := keyfuncs.User(func(r *http.Request) string { return exchangeOf(r).user })
	fields := headers.Join(headers.Draft, headers.LLM)
	limit := ratelimit.New(limiter, ratelimit.Options{Headers: fields, OnError: guard.FailClosed}, // uncounted tokens would be ours to pay
		ratelimit.Policy{Limit: requests, By: user},
		ratelimit.Policy{Limit: streams, By: user, Queue: ratelimit.QueuePolicy{MaxWait: time.Second}},
		ratelimit.Policy{
			Limit: tokens, By: user, Unit: "tokens", Settle: ratelimit.SettlePolicy{
				ReserveFor: longestStream + time.Minute,
				Cost: func(r *http.Request, served ratelimit.Served) int {
					if x := exchangeOf(r); x.ended {
						answers.Learn(x.model, x.maxTokens, served.Spent-x.prompt)
					}
					return served.Spent
				},
			},
			Cost: func(r *http.Request) int { return exchangeOf(r).estimated(answers) },
		},
		ratelimit.Policy{
			Limit: budget, By: user, Unit: "tokens",
			Cost:   func(r *http.Request) int { return exchangeOf(r).estimated(answers) },
			Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int { return served.Spent }},
		})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			body := exchangeOf(r.In).body
			r.SetURL(model)
			r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Out.Header.Set("Authorization", "Bearer "+key) // in place of the user's
			r.Out.Header.Set("Accept-Encoding", "identity")  // so that the meter can read it
			r.Out = r.Out.WithContext(httptrace.WithClientTrace(r.Out.Context(), &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { exchangeOf(r.In).spend(r.In, exchangeOf(r.In).prompt) }, // it is sent now
			}))
		},
		ModifyResponse: func(response *http.Response) error {
			x := exchangeOf(response.Request)
			for _, name := range headers.Names(fields) {
				if strings.Contains(name, "Ratelimit") { // those of our account. When to try again is for the user to know, too
					response.Header.Del(name)
				}
			}
			if response.StatusCode != http.StatusOK {
				x.spend(response.Request, 0)
				return nil
			}
			response.Body = &meter{ReadCloser: response.Body, request: response.Request, exchange: x, reserved: x.estimated(answers)}
			response.Header.Del("Content-Length") // the meter adds to it
			response.ContentLength = -1
			return nil
		},
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", read(limit(within(longestStream, proxy))))
	return mux
}

// exchange has the user and the costs of a request. The limits read it.
type exchange struct {
	user  string
	body  []byte // for the model
	model string

	prompt    int // tokens of it, about
	maxTokens int
	most      int // tokens that it can cost
	cost      int // that was estimated; 0: not yet
	spent     int // so far
	ended     bool
}

// spend tells the limits how many tokens are spent until now.
func (x *exchange) spend(r *http.Request, tokens int) {
	guard.Spend(r.Context(), tokens-x.spent)
	x.spent = tokens
}

// estimated returns the tokens that a request reserves, which are the same each time.
func (x *exchange) estimated(answers *estimate.Estimate) int {
	if x.cost == 0 {
		x.cost = min(x.most, x.prompt+answers.Cost(x.model, x.maxTokens))
	}
	return x.cost
}

// within ends requests that take longer: reservations that end by time are settled before.
func within(longest time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange) // read has put it there
	return x
}

// completion is the request to the model. Other fields of a client are not passed on, since they
// may cost more, as "n" does.
type completion struct {
	Model     string          `json:"model"`
	Messages  json.RawMessage `json:"messages"`
	MaxTokens int             `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	Options   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// users stands for your own users, by their keys.
var users = map[string]string{"key-of-alice": "alice", "key-of-bob": "bob"}

// read finds the user of a request, and its greatest cost.
func read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		user := users[key]
		if user == "" {
			http.Error(w, "unknown key", http.StatusUnauthorized)
			return
		}
		var c completion
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestBody)).Decode(&c)
		if c.MaxTokens = cmp.Or(c.MaxTokens, mostTokens); err != nil || c.MaxTokens < 0 || c.MaxTokens > mostTokens {
			http.Error(w, fmt.Sprintf("send a JSON document of at most %d bytes with max_tokens up to %d", longestBody, mostTokens), http.StatusBadRequest)
			return
		}
		c.Stream, c.Options.IncludeUsage = true, true
		body, err := json.Marshal(c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		x := &exchange{
			user: user, body: body, model: c.Model, maxTokens: c.MaxTokens,
			prompt: len(c.Messages)/4 + 1,         // as a rule of thumb
			most:   len(c.Messages) + c.MaxTokens, // a token has at least a byte
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// meter counts the tokens of a stream while it is read, and cuts it where a budget ends.
type meter struct {
	io.ReadCloser

	request  *http.Request
	exchange *exchange
	reserved int    // tokens
	line     []byte // the beginning of one
	out      bytes.Buffer
	err      error // after the bytes in out
}

// Read reads whole lines.
func (m *meter) Read(p []byte) (int, error) {
	var buffer [4096]byte
	for m.out.Len() == 0 && m.err == nil {
		n, err := m.ReadCloser.Read(buffer[:])
		m.line, m.err = append(m.line, buffer[:n]...), err
		for {
			line, rest, whole := bytes.Cut(m.line, []byte("\n"))
			if !whole || errors.Is(m.err, errCut) {
				break
			}
			m.pass(line)
			m.line = rest
		}
	}
	if m.out.Len() > 0 {
		return m.out.Read(p)
	}
	if errors.Is(m.err, errCut) {
		return 0, io.EOF // with an error event in front of it
	}
	return 0, m.err
}

var errCut = errors.New("the stream was cut")

// pass hands a line on. It takes each piece of the answer for a token, until the model tells their number at the end.
func (m *meter) pass(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data: "))
	var event struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			TotalTokens int `json:"total_tokens"`
		} `json:"usage"`
	}
	switch {
	case ok && bytes.Equal(data, []byte("[DONE]")):
		m.exchange.ended = true
		m.tellLeft()
	case !ok || json.Unmarshal(data, &event) != nil:
	case event.Usage != nil:
		m.exchange.spend(m.request, event.Usage.TotalTokens)
	case len(event.Choices) > 0 && event.Choices[0].Delta.Content != "":
		if m.exchange.spent == m.reserved && !m.grow() {
			return
		}
		m.exchange.spend(m.request, m.exchange.spent+1)
	}
	m.out.Write(append(line, '\n'))
}

// grow reserves some more tokens, and ends the stream if that is denied.
func (m *meter) grow() bool {
	x := m.exchange
	total := max(x.spent+1, min(x.spent+step, x.most))
	d, err := guard.Grow(m.request.Context(), total, tokens, budget)
	if err == nil && d.Allowed {
		m.reserved = total
		return true
	}
	reason := "the limits cannot be asked"
	if err == nil {
		reason = fmt.Sprintf("%s are used up; try again in %v", d.Limit.Name(), d.RetryAfter.Round(time.Second))
	}
	fmt.Fprintf(&m.out, `data: {"error": {"type": "rate_limit_exceeded", "message": %q}}`+"\n\n", reason)
	m.tellLeft()
	m.out.WriteString("data: [DONE]\n\n")
	m.err = errCut
	return false
}

// tellLeft settles the request, and tells the remaining tokens in a comment.
func (m *meter) tellLeft() {
	for _, outcome := range guard.Settle(m.request.Context()) {
		if outcome.Unit == "tokens" {
			fmt.Fprintf(&m.out, ": %s: %d used, %d left\n", outcome.Policy, outcome.Cost, outcome.Decision.Remaining)
		}
	}
	m.out.WriteString("\n")
}

// parrot stands for the model.
func parrot(w http.ResponseWriter, r *http.Request) {
	var c completion
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Model != "parrot" && c.Model != "broken" {
		http.Error(w, `{"error": {"message": "there is no such model"}}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range c.MaxTokens {
		fmt.Fprint(w, `data: {"choices": [{"delta": {"content": "squawk "}}]}`, "\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return // the proxy has left
		}
		if c.Model == "broken" && i == 9 {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(w, `data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": %d, "total_tokens": %d}}`+"\n\n", c.MaxTokens, 7+c.MaxTokens)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
