package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// loadVariable is the environment variable that makes this program a generator of
// HTTP load. It is a process of its own, so that its CPU time is not counted as
// the server's.
const loadVariable = "RATELIMIT_BENCH_HTTP_LOAD"

// httpPlan is the task of a generator: it asks for one page over and over, on
// connections that stay open, each from an address of its own where the system has
// a whole network of them for itself.
type httpPlan struct {
	Address     string
	Connections int
	Warmup      time.Duration // not counted
	Duration    time.Duration
}

// httpTally has the counts of a generator, or of the program that asks services for Envoy.
type httpTally struct {
	Admitted, Denied, Errors int
	Elapsed, P50, P99        time.Duration
}

// generate has a process of its own carry out a plan.
func generate(ctx context.Context, plan httpPlan) (tally, error) {
	order, err := json.Marshal(plan)
	if err != nil {
		return tally{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return tally{}, err
	}
	command := exec.CommandContext(ctx, self) //nolint:gosec // it is this program
	command.Env = append(os.Environ(), loadVariable+"="+string(order))
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	if err := command.Run(); err != nil {
		return tally{}, fmt.Errorf("bench: generating HTTP load: %w\n%s", err, &messages)
	}
	var counted httpTally
	if err := json.Unmarshal(out.Bytes(), &counted); err != nil {
		return tally{}, fmt.Errorf("bench: the result of the HTTP load: %w", err)
	}
	return counted.tally(), nil
}

func (t httpTally) tally() tally {
	return tally{
		checks: t.Admitted + t.Denied, admitted: t.Admitted, errors: t.Errors, elapsed: t.Elapsed, p50: t.P50, p99: t.P99,
	}
}

// generator carries out the plan in the environment, if there is one, and returns
// the code to exit with.
func generator(out, messages io.Writer) (code int, asked bool) {
	order, asked := os.LookupEnv(loadVariable)
	if !asked {
		return 0, false
	}
	var plan httpPlan
	if err := json.Unmarshal([]byte(order), &plan); err != nil {
		_, _ = fmt.Fprintln(messages, err)
		return 2, true
	}
	if err := json.NewEncoder(out).Encode(plan.carryOut()); err != nil {
		_, _ = fmt.Fprintln(messages, err)
		return 1, true
	}
	return 0, true
}

func (p httpPlan) carryOut() httpTally {
	clients := make([]*fasthttp.HostClient, p.Connections)
	for i := range clients {
		clients[i] = p.client(i)
	}
	if p.Warmup > 0 {
		p.ask(clients, p.Warmup)
	}
	counted := p.ask(clients, p.Duration)
	counted.settle()
	return httpTally{
		Admitted: counted.admitted, Denied: counted.checks - counted.admitted, Errors: counted.errors,
		Elapsed: counted.elapsed, P50: counted.p50, P99: counted.p99,
	}
}

// client returns a client with one connection. The whole of 127.0.0.0/8 is this
// machine on Linux; elsewhere all connections come from one address.
func (p httpPlan) client(i int) *fasthttp.HostClient {
	var dialer net.Dialer
	if runtime.GOOS == "linux" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}
	}
	return &fasthttp.HostClient{
		Addr: p.Address, MaxConns: 1,
		Dial: func(address string) (net.Conn, error) {
			return dialer.DialContext(context.Background(), "tcp", address)
		},
	}
}

func (p httpPlan) ask(clients []*fasthttp.HostClient, duration time.Duration) tally {
	var over atomic.Bool
	defer time.AfterFunc(duration, func() { over.Store(true) }).Stop()
	var index atomic.Int64
	return together(len(clients), func(*rand.Rand) tally {
		client := clients[index.Add(1)-1]
		request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(request)
		defer fasthttp.ReleaseResponse(response)
		request.SetRequestURI("http://" + p.Address + "/")
		var own tally
		for {
			start := time.Now()
			err := client.Do(request, response)
			own.times = append(own.times, time.Since(start))
			status := response.StatusCode()
			if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
				err = fmt.Errorf("bench: status %d", status)
			}
			own.count(status == http.StatusOK, err)
			if over.Load() {
				return own
			}
		}
	})
}
