package rpctest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Every client sees that a call is denied, for how long, and what the limits are, in each
// framework, and that the calls before were served.
func TestClientsUnderstandThatTheyAreLimited(t *testing.T) {
	for framework, limited := range frameworks {
		limiter, options, policy := limits[http.StatusTooManyRequests]()
		server := serve(t, limited(service(), limiter, options, policy))
		for _, c := range callers() {
			t.Run(framework+"/"+c.name, func(t *testing.T) {
				if f := c.call(t, server); f != nil {
					t.Fatalf("the first call has failed: %+v", f)
				}
				f := c.call(t, server)
				if f == nil {
					t.Fatal("the second call was served")
				}
				expect(t, f, connect.CodeResourceExhausted)
				if wait := waitOf(f); wait != time.Minute {
					t.Errorf("told to wait for %v, want a minute", wait)
				}
				if f.field("Retry-After") != "60" || f.field("RateLimit") != `"one";r=0;t=60` || f.field("RateLimit-Policy") != `"one";q=1;w=60` {
					t.Errorf("the header has Retry-After %q, RateLimit %q and RateLimit-Policy %q, want all of them",
						f.field("Retry-After"), f.field("RateLimit"), f.field("RateLimit-Policy"))
				}
			})
		}
	}
}

func TestClientsUnderstandThatNothingWasDecided(t *testing.T) {
	for framework, limited := range frameworks {
		for code, s := range map[connect.Code]int{connect.CodeUnavailable: http.StatusServiceUnavailable, connect.CodeInternal: http.StatusInternalServerError} {
			limiter, options, policy := limits[s]()
			server := serve(t, limited(service(), limiter, options, policy))
			for _, c := range callers() {
				t.Run(framework+"/"+code.String()+"/"+c.name, func(t *testing.T) {
					f := c.call(t, server)
					if f == nil {
						t.Fatal("the call was served")
					}
					expect(t, f, code)
					wait, retryable := waitOf(f), s == http.StatusServiceUnavailable
					if retryable != (wait >= time.Second && wait <= 3*time.Second) || !retryable && f.retryInfo != nil {
						t.Errorf("told to wait for %v", wait)
					}
				})
			}
		}
	}
}

func TestClientsUnderstandThatTheyAreForbidden(t *testing.T) {
	server := serve(t, &ratelimit.Denial{Status: http.StatusForbidden})
	for _, c := range callers() {
		t.Run(c.name, func(t *testing.T) {
			f := c.call(t, server)
			if f == nil {
				t.Fatal("the call was served")
			}
			expect(t, f, connect.CodePermissionDenied)
		})
	}
}

func expect(t *testing.T, f *failure, code connect.Code) {
	t.Helper()
	if f.code != code || f.message == "" {
		t.Errorf("failed with %v (%q), want %v", f.code, f.message, code)
	}
}

func waitOf(f *failure) time.Duration { return f.retryInfo.GetRetryDelay().AsDuration() }

// A client that retries what is exhausted does so as often as it is told: never, where no
// wait can help, and without such word as often as it likes.
func TestRetriesAreLeftWhereNoWaitCanHelp(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	for name, c := range map[string]struct {
		pushback string // in place of what the limiter says
		want     int32
	}{
		"told that it is for good": {"-1", 1},
		"told nothing":             {"", 3},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			policy := one()
			policy.Cost = func(*http.Request) int { asked.Add(1); return 2 }
			server := serve(t, afterReading(ratelimit.New(core.New(core.NewMemory()), ratelimit.Options{
				Denied: func(w http.ResponseWriter, r *http.Request, denial *ratelimit.Denial) {
					recorder := httptest.NewRecorder()
					denial.ServeHTTP(recorder, r)
					for name := range recorder.Header() {
						w.Header().Set(name, recorder.Header().Get(name))
					}
					if c.pushback == "" {
						w.Header().Del("Grpc-Retry-Pushback-Ms")
					}
					if got := w.Header().Get("Grpc-Retry-Pushback-Ms"); got != c.pushback {
						t.Errorf("pushed back by %q, want %q", got, c.pushback)
					}
					w.WriteHeader(recorder.Code)
				},
			}, policy)(service())))
			connection := dial(t, server, grpc.WithDefaultServiceConfig(retries))
			defer connection.Close()
			err := connection.Invoke(t.Context(), unary, new(emptypb.Empty), new(emptypb.Empty))
			if status.Code(err) != codes.ResourceExhausted || asked.Load() != c.want {
				t.Errorf("failed with %v after %d calls, want ResourceExhausted after %d", err, asked.Load(), c.want)
			}
		})
	}
}

// A client that retries what is exhausted learns the reason and the wait at once, where the wait is longer than it would
// sleep: grpc-go sleeps for as long as it is pushed back, past what its caller can use.
func TestRetriesAreLeftToTheCallerWhereTheWaitIsLong(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	for wait, want := range map[time.Duration]int32{24 * time.Hour: 1, 5*time.Second + 1: 1, time.Millisecond: 2} {
		t.Run(wait.String(), func(t *testing.T) {
			var asked atomic.Int32
			denial := &ratelimit.Denial{Status: http.StatusTooManyRequests, RetryAfter: wait}
			server := serve(t, afterReading(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				denial.ServeHTTP(w, r)
			})))
			connection := dial(t, server, grpc.WithDefaultServiceConfig(retries))
			defer connection.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := connection.Invoke(ctx, unary, new(emptypb.Empty), new(emptypb.Empty))
			if status.Code(err) != codes.ResourceExhausted || asked.Load() != want {
				t.Fatalf("failed with %v after %d calls, want ResourceExhausted after %d", err, asked.Load(), want)
			}
			details := status.Convert(err).Details()
			if len(details) != 1 || details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration() != wait {
				t.Errorf("told %v, want to wait for %v", details, wait)
			}
		})
	}
}

// What is written by hand is what Protocol Buffers write, byte for byte.
func TestRetryInfoIsThatOfProtocolBuffers(t *testing.T) {
	for _, wait := range []time.Duration{
		1, 127, 128, time.Microsecond, time.Second - 1, time.Second, time.Second + 1, time.Minute, 1500 * time.Millisecond,
		128 * time.Second, 16384*time.Second + 999999999, 365 * 24 * time.Hour, core.Never - 1,
	} {
		denial := &ratelimit.Denial{Status: http.StatusTooManyRequests, RetryAfter: wait}
		info := &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}

		h := answer(denial, "application/grpc").Header()
		detail, err := anypb.New(info)
		if err != nil {
			t.Fatal(err)
		}
		want := &rpcstatus.Status{Code: int32(codes.ResourceExhausted), Message: h.Get("Grpc-Message"), Details: []*anypb.Any{detail}}
		same(t, wait, h.Get("Grpc-Status-Details-Bin"), want)

		var e struct {
			Details []struct{ Type, Value string }
		}
		if err := json.Unmarshal(answer(denial, "application/proto").Body.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Details) != 1 || e.Details[0].Type != string(info.ProtoReflect().Descriptor().FullName()) {
			t.Fatalf("%v: details %+v, want one RetryInfo", wait, e.Details)
		}
		same(t, wait, e.Details[0].Value, info)
	}
	for _, wait := range []time.Duration{0, -1, core.Never} {
		denial := &ratelimit.Denial{Status: http.StatusTooManyRequests, RetryAfter: wait}
		if h := answer(denial, "application/grpc").Header(); h.Get("Grpc-Status") != "8" || h.Get("Grpc-Status-Details-Bin") != "" {
			t.Errorf("%v: %v, want no details", wait, h)
		}
	}
}

// answer is what a denied call is answered.
func answer(denial *ratelimit.Denial, contentType string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, unary, nil)
	r.ProtoMajor = 2
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Connect-Protocol-Version", "1")
	w := httptest.NewRecorder()
	denial.ServeHTTP(w, r)
	return w
}

// same wants a message in base64.
func same(t *testing.T, wait time.Duration, encoded string, message proto.Message) {
	t.Helper()
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := base64.RawStdEncoding.DecodeString(encoded); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: %x, %v, want %x", wait, got, err, want)
	}
}

// afterReading serves a request when its message has come: grpc-go fails with EOF where the answer is faster than the message.
func afterReading(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(message))
		h.ServeHTTP(w, r)
	})
}
