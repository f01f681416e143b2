// Llmproxy stands between users and a language model, and gives each user a budget of tokens:
//
//   - each user has 2,000 tokens an hour and 20 requests a minute, decided in one round trip;
//   - a request reserves the most that it may cost, its prompt and its max_tokens;
//   - the answer is streamed (server-sent events), and pays what it has really cost at its end:
//     what the model says or, if the client leaves or the model breaks off, what was streamed;
//   - a request that the model refuses costs no tokens;
//   - at the end, streams in flight may go on for half a minute; then they are cut, and pay for
//     what was streamed.
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
// Interrupt it in the middle, ask again, and see by RateLimit what is left.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

const (
	mostTokens    = 1000 // of an answer, and as many as a request has that does not say
	longestBody   = 1 << 16
	patience      = 30 * time.Second // with streams in flight at the end
	longestSettle = 5 * time.Second  // when they have been cut
)

var (
	requests = core.Leaky(20, core.PerMinute(20)).Named("requests")
	tokens   = core.FixedWindow(2000, time.Hour).Named("tokens")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	model := os.Getenv("MODEL_URL")
	if model == "" {
		listener := listen("localhost:0")
		model = "http://" + listener.Addr().String()
		go http.Serve(listener, http.HandlerFunc(parrot))
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
	if err := serve(ctx, listener, newProxy(limiter, target, os.Getenv("MODEL_KEY")), patience); err != nil {
		log.Print(err)
	}
	_ = limiter.Close() // settles what is still reserved
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

// newProxy returns what the users see: who is asking, and what, then the limits, then the model.
func newProxy(limiter *core.Limiter, model *url.URL, key string) http.Handler {
	user := keyfuncs.User(func(r *http.Request) string { return exchangeOf(r).user })
	limit := ratelimit.New(limiter, ratelimit.Options{OnError: ratelimit.FailClosed}, // what nobody counts, we would pay
		ratelimit.Policy{Limit: requests, By: user},
		ratelimit.Policy{
			Limit: tokens, By: user, Unit: "tokens",
			Cost:   func(r *http.Request) int { return exchangeOf(r).most },
			Settle: func(_ *http.Request, served ratelimit.Served) int { return served.Spent },
		})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			body := exchangeOf(r.In).body
			r.SetURL(model)
			r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Out.Header.Set("Authorization", "Bearer "+key) // in place of the user's
			r.Out.Header.Set("Accept-Encoding", "identity")  // so that the meter can read it
		},
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode == http.StatusOK {
				m := &meter{ReadCloser: response.Body, request: response.Request}
				m.spend(exchangeOf(response.Request).prompt)
				response.Body = m
			}
			return nil
		},
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", read(limit(proxy)))
	return mux
}

// exchange is what is known of a request. The limits read it.
type exchange struct {
	user   string
	body   []byte // for the model
	prompt int    // tokens of it, about
	most   int    // tokens that it can cost
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange) // read has put it there
	return x
}

// completion is what the model is asked. What a client sends besides is not passed on, since it
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

// read finds out who is asking, and what it may cost.
func read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		user := users[key]
		if user == "" {
			http.Error(w, "whose key is that?", http.StatusUnauthorized)
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
			user: user, body: body,
			prompt: len(c.Messages)/4 + 1,         // as a rule of thumb
			most:   len(c.Messages) + c.MaxTokens, // a token has at least a byte
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// meter counts the tokens of a stream while it is read.
type meter struct {
	io.ReadCloser

	request *http.Request
	spent   int    // tokens so far
	line    []byte // the beginning of one
}

// spend tells the limits that so many tokens are spent until now.
func (m *meter) spend(tokens int) {
	ratelimit.Spend(m.request.Context(), tokens-m.spent)
	m.spent = tokens
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.line = append(m.line, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(m.line, []byte("\n"))
		if !whole {
			return n, err
		}
		m.count(line)
		m.line = rest
	}
}

// count takes each piece of the answer for a token, until the model says at the end what there were.
func (m *meter) count(line []byte) {
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
	case !ok || json.Unmarshal(data, &event) != nil: // such as [DONE]
	case event.Usage != nil:
		m.spend(event.Usage.TotalTokens)
	case len(event.Choices) > 0 && event.Choices[0].Delta.Content != "":
		m.spend(m.spent + 1)
	}
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
