package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/llmproxy/estimate"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// said is how a request of an SDK went.
type said struct {
	SDK      string
	Status   int
	Attempts int
	Told     float64 // milliseconds to wait, of the first denial
	Took     float64 // milliseconds
	Names    string  // of the fields of the last answer
}

// noticed calls a function when a request has been denied.
type noticed struct {
	http.ResponseWriter

	denied func()
}

func (n *noticed) WriteHeader(status int) {
	n.ResponseWriter.WriteHeader(status)
	if status == http.StatusTooManyRequests {
		n.denied()
	}
}

func (n *noticed) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// bySDKs has SDKs send requests to a proxy. Each is the name of an SDK, the key of a user, and the words to the model.
func bySDKs(t *testing.T, limiter *core.Limiter, denied func(), requests ...[3]string) (all []said) {
	t.Helper()
	node := servertest.Program(t, "node")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sdks := filepath.Join(cache, "weir-test", "llm-sdks-1")
	if _, err := os.Stat(sdks); err != nil {
		servertest.Missing(t, "there are no SDKs: make sdks installs them")
	}
	model := httptest.NewServer(http.HandlerFunc(parrot))
	defer model.Close()
	target, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	handler := newProxy(limiter, estimate.New(estimate.Options{}), target, "")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&noticed{w, denied}, r)
	}))
	defer proxy.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	asked, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "sdks.mjs"))
	program.Env = append(os.Environ(), "SDKS="+sdks, "PROXY="+proxy.URL, "ASK="+string(asked))
	var errors bytes.Buffer
	program.Stderr = &errors
	output, err := program.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errors.String())
	}
	for line := range strings.Lines(string(output)) {
		var one said
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, one)
	}
	if len(all) != len(requests) {
		t.Fatalf("%d answers to %d requests: %s", len(all), len(requests), output)
	}
	return all
}

var sdkNames = []string{"openai", "anthropic"}

// use uses up some units of a user.
func use(t *testing.T, limiter *core.Limiter, user string, limit core.Quota, units int) {
	t.Helper()
	if d, err := limiter.AllowN(t.Context(), "user:"+user, limit, units); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
}

// An SDK waits for as long as it is told, to the millisecond, asks once more, and is served. It finds the limits' fields.
func TestSDKsRetryWhenTheyAreTold(t *testing.T) {
	for _, sdk := range sdkNames {
		began, firstDenied := time.Now(), new(atomic.Pointer[time.Time])
		limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { // it begins to run at the first denial, however long Node.js takes to start
			if at := firstDenied.Load(); at != nil {
				return began.Add(time.Since(*at) + 10*time.Millisecond) // timers of Node.js may fire too early by one
			}
			return began
		})))
		use(t, limiter, "alice", requests, requests.Capacity())
		denied := func() {
			now := time.Now()
			firstDenied.CompareAndSwap(nil, &now)
		}
		one := bySDKs(t, limiter, denied, [3]string{sdk, "key-of-alice", "Hello"})[0]
		if one.Status != http.StatusOK || one.Attempts != 2 || one.Told <= 0 || one.Told > 3000 || one.Took < one.Told {
			t.Errorf("%+v", one)
		}
		for _, name := range headers.Names(headers.LLM) {
			if name = strings.ToLower(name); !strings.Contains(one.Names, name) && !strings.Contains(name, "retry") && !strings.Contains(name, "put-tokens") {
				t.Errorf("%s has not got %s: %s", one.SDK, name, one.Names)
			}
		}
		_ = limiter.Close()
	}
}

// Where no wait helps, or the budget is used up until next month, an SDK gives up at once, and its caller is told why.
func TestSDKsGiveUpWhereNoWaitHelps(t *testing.T) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	use(t, limiter, "bob", budget, budget.Capacity())
	var ask [][3]string
	for _, sdk := range sdkNames {
		ask = append(ask, [3]string{sdk, "key-of-alice", strings.Repeat("Hello", 2000)}, [3]string{sdk, "key-of-bob", "Hello"})
	}
	for i, one := range bySDKs(t, limiter, func() {}, ask...) {
		if one.Status != http.StatusTooManyRequests || one.Attempts != 1 || !strings.Contains(one.Names, "x-should-retry") ||
			strings.Contains(one.Names, "retry-after-ms") != (i%2 == 1) {
			t.Errorf("request %d: %+v", i, one)
		}
	}
}
