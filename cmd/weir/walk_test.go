package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/policies"

	"github.com/weir-go/ratelimit/internal/servertest"
)

const proxyConf = `daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {}
http {
	access_log {dir}/access.log;
	client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
	server {
		listen {address};
		location / { proxy_pass {server}; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }
	}
}
`

// greedy is the client that sends too many requests.
const greedy = "127.0.200.1"

// site is a server of the user's, with limits from a file, behind nginx.
type site struct {
	t      *testing.T
	dir    string
	limits string // the file
	set    *policies.Set
	nginx  string // its address

	tight, daily guard.Comparison
	// passed is how many requests of greedy have passed limits that are enforced, and mixed how many requests met policies of two files.
	passed, mixed atomic.Int64
	crowds        atomic.Int64
}

// newSite starts a server without limits.
func newSite(t *testing.T, limiter *core.Limiter) *site {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all addresses of 127.0.0.0/8")
	}
	nginx := servertest.Program(t, "nginx")
	s := &site{t: t, dir: t.TempDir()}
	s.limits = filepath.Join(s.dir, "limits.yaml")
	s.write(s.limits, "limitsNothing: true\n")
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	var err error
	if s.set, err = policies.Watch(ctx, policies.File(s.limits), policies.Options{Every: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	options := ratelimit.Options{Observe: guard.Compare(&s.tight, "tight", guard.Compare(&s.daily, "daily", s.observe))}
	server := httptest.NewServer(ratelimit.FromPolicies(limiter, s.set, options)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(server.Close)
	s.nginx = servertest.Start(t, s.dir, proxyConf, func(file string) *exec.Cmd { return exec.Command(nginx, "-p", s.dir, "-c", file) }, "{server}", server.URL)
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// observe sees that a request meets one file: two policies that are shadows, or two that are not. It leaves out clients that have gone.
func (s *site) observe(e guard.Event) {
	if e.Err != nil {
		return
	}
	if len(e.Outcomes) != 2 || e.Outcomes[0].Shadow != e.Outcomes[1].Shadow {
		s.mixed.Add(1)
	} else if o := e.Outcomes[0]; !o.Shadow && e.Status == 0 && o.Key == "ip:"+greedy {
		s.passed.Add(1)
	}
}

// put puts a text into the file of limits in one step, and waits until the server has it.
func (s *site) put(text string) {
	s.t.Helper()
	want, err := policies.Parse([]byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(s.limits+".new", text)
	if err := os.Rename(s.limits+".new", s.limits); err != nil {
		s.t.Fatal(err)
	}
	s.await("the file is in force", func() bool { return s.set.Document().String() == want.String() })
}

func (s *site) await(what string, done func() bool) {
	s.t.Helper()
	for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			s.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// ask sends requests from an address, one after the other, and returns how many there were of each status.
func (s *site) ask(ctx context.Context, address string, requests int) map[int]int {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	statuses := make(map[int]int)
	for ; requests > 0; requests-- {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.nginx+"/", http.NoBody)
		if err != nil {
			s.t.Error(err)
			break
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			if ctx.Err() == nil {
				s.t.Errorf("%s: %v", address, err)
			}
			break
		}
		_ = response.Body.Close()
		statuses[response.StatusCode]++
	}
	return statuses
}

// crowd has new clients send a few requests each, all of which have to pass.
func (s *site) crowd(ctx context.Context, clients, requests int) {
	var group sync.WaitGroup
	for range clients {
		n := s.crowds.Add(1)
		group.Go(func() {
			if got := s.ask(ctx, fmt.Sprintf("127.1.%d.%d", n/250, 1+n%250), requests); got[http.StatusOK] != requests && ctx.Err() == nil {
				s.t.Errorf("one of the crowd got %v", got)
			}
		})
	}
	group.Wait()
}

// traffic has a crowd and the greedy client send requests at the same time, and returns their log, which begins anew. So many are the lines
// that it has.
func (s *site) traffic(clients, each, requests int) (log string) {
	s.t.Helper()
	var group sync.WaitGroup
	group.Go(func() { s.crowd(s.t.Context(), clients, each) })
	group.Go(func() {
		if got := s.ask(s.t.Context(), greedy, requests); got[http.StatusOK] != requests {
			s.t.Errorf("without limits the greedy client got %v", got)
		}
	})
	group.Wait()
	access := filepath.Join(s.dir, "access.log")
	text := servertest.Await(s.t, access, clients*each+requests)
	log = filepath.Join(s.dir, fmt.Sprintf("access-%d.log", s.crowds.Load()))
	s.write(log, string(text))
	if err := os.Truncate(access, 0); err != nil {
		s.t.Fatal(err)
	}
	return log
}

// during does something while the crowd and the greedy client send requests.
func (s *site) during(do func()) {
	ctx, end := context.WithCancel(s.t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	group.Go(func() {
		for ctx.Err() == nil {
			s.crowd(ctx, 5, 1)
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			s.ask(ctx, greedy, 20)
		}
	})
	do()
}

// answers fails unless weir exits with a code and says something.
func answers(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	got, out, messages := weir(t, "", args...)
	if got != code || !strings.Contains(strings.Join(strings.Fields(out+messages), " "), says) {
		t.Errorf("weir %q: exit code %d, want %d and %q: %s%s", args, got, code, says, out, messages)
	}
}
