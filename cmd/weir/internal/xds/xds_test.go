package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-go/ratelimit/cmd/weir/internal/xds/xdstest"
)

// patience is how long a test waits for an event that is certain to come.
const patience = time.Minute

// receiver is a client of a test.
type receiver struct {
	used    chan string        // the version and the domains that were used
	paused  chan time.Duration // how long the client would have waited
	refuses func(domain string) error
	refused atomic.Int32 // how many responses were told to be refused
}

// receive runs a client until the test ends. It does not wait before it connects anew, but a moment.
func receive(t *testing.T, server *xdstest.Server) *receiver {
	t.Helper()
	r := &receiver{used: make(chan string, 100), paused: make(chan time.Duration, 10_000)}
	r.refuses = func(domain string) error {
		switch domain {
		case "nonsense":
			return errors.New("it makes no sense")
		case "panic":
			panic("no sense at all")
		}
		return nil
	}
	use := func(version string, resources []*config.RateLimitConfig) error {
		texts := []string{version}
		for _, one := range resources {
			if err := r.refuses(one.GetDomain()); err != nil {
				return err
			}
			texts = append(texts, one.GetDomain())
		}
		r.used <- strings.Join(texts, " ")
		return nil
	}
	settings := Settings{
		Server: server.Address, Node: xdstest.Node, Metadata: map[string]string{"a": "b"}, Headers: map[string]string{"x-token": "c"},
		Logger: slog.New(slog.DiscardHandler), Refused: func() { r.refused.Add(1) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		newClient(settings, use, func(ctx context.Context, d time.Duration) {
			r.paused <- d
			pause(ctx, time.Millisecond)
		}).run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// next returns the version and the domains that are used next.
func (r *receiver) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-r.used:
		return text
	case <-time.After(patience):
		t.Fatal("nothing was received")
		return ""
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it has not happened in %v", what, patience)
		}
	}
}

func wants(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%q was used, want %q", got, want)
	}
}

// TestUpdatesAreAccepted receives the limits that a server has, and each change.
func TestUpdatesAreAccepted(t *testing.T) {
	server := xdstest.New(t)
	server.Start()
	server.Set("1", xdstest.Limit("one", "k", 1))
	r := receive(t, server)
	wants(t, r.next(t), "1 one")
	server.Set("2", xdstest.Limit("two", "k", 1))
	wants(t, r.next(t), "2 two")
	server.Set("3")
	wants(t, r.next(t), "3")
	var got []*discovery.DiscoveryRequest
	eventually(t, "the last one is accepted", func() bool {
		got = server.Requests()
		return got[len(got)-1].GetVersionInfo() == "3"
	})
	nonces := make(map[string]bool)
	for i, one := range got {
		if want := []string{"", "1", "2", "3"}[i]; one.GetVersionInfo() != want || one.GetErrorDetail() != nil || one.GetTypeUrl() != Type {
			t.Errorf("request %d is %v, want the version %q", i, one, want)
		}
		nonces[one.GetResponseNonce()] = true
	}
	if len(nonces) != 4 || got[0].GetNode().GetId() != xdstest.Node || got[0].GetNode().GetMetadata().GetFields()["a"].GetStringValue() != "b" {
		t.Errorf("the nonces are %v, and the first request is %v", nonces, got[0])
	}
}

// TestNonsenseIsRefused: the server hears the reason and the version that stays, and not again and again without a pause.
func TestNonsenseIsRefused(t *testing.T) {
	server := xdstest.New(t)
	server.Start()
	server.Set("1", xdstest.Limit("one", "k", 1))
	r := receive(t, server)
	wants(t, r.next(t), "1 one")
	for version, domain := range map[string]string{"2": "nonsense", "3": "panic"} {
		before := len(server.Refused())
		server.Set(version, xdstest.Limit("one", "k", 1), xdstest.Limit(domain, "k", 1))
		eventually(t, "it is refused", func() bool { return len(server.Refused()) > before+6 })
	}
	for _, one := range server.Requests() {
		if refused := one.GetErrorDetail(); refused != nil && (one.GetVersionInfo() != "1" || refused.GetCode() == 0 ||
			refused.GetMessage() != "it makes no sense" && refused.GetMessage() != "the resources have caused a panic") {
			t.Errorf("a refusal is %v", one)
		}
	}
	if told := r.refused.Load(); told != 2 {
		t.Errorf("%d refusals were told, want one of each version", told)
	}
	if len(r.paused) < 8 {
		t.Errorf("there were %d pauses for %d refusals", len(r.paused), len(server.Refused()))
	}
	server.Set("4", xdstest.Limit("four", "k", 1))
	wants(t, r.next(t), "4 four")
}

// TestServerIsGone: the client waits for a server that is not there, and takes the limits of a new one, also under a version that was there before.
func TestServerIsGone(t *testing.T) {
	server := xdstest.New(t)
	r := receive(t, server)
	eventually(t, "the client waits", func() bool { return len(r.paused) > 2 })
	server.Start()
	server.Set("1", xdstest.Limit("one", "k", 1))
	wants(t, r.next(t), "1 one")
	server.Stop()
	before := len(r.paused)
	eventually(t, "the client waits", func() bool { return len(r.paused) > before+2 })
	server.Start()
	server.Set("1", xdstest.Limit("other", "k", 1))
	wants(t, r.next(t), "1 other")
}

// TestBackoffGrows to its bound, and differs by chance.
func TestBackoffGrows(t *testing.T) {
	for failures, seconds := range []int{1, 2, 4, 8, 10, 10, 10} {
		most := time.Duration(seconds) * time.Second
		for range 1000 {
			if d := backoff(time.Second, 10*time.Second, failures); d > most || d < most/2 {
				t.Fatalf("after %d failures: %v", failures, d)
			}
		}
	}
	if backoff(time.Second, 10*time.Second, 1<<40) > 10*time.Second {
		t.Error("the bound is passed")
	}
}

// TestResourcesAreUnpacked: they may stand in an envelope. All else is refused.
func TestResourcesAreUnpacked(t *testing.T) {
	pack := func(message proto.Message) *anypb.Any {
		t.Helper()
		packed, err := anypb.New(message)
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	plain := pack(xdstest.Limit("one", "k", 1))
	for _, test := range []struct {
		what   string
		packed *anypb.Any
		says   string
	}{
		{"a resource", plain, ""},
		{"an envelope", pack(&discovery.Resource{Name: "one", Resource: plain}), ""},
		{"an empty envelope", pack(&discovery.Resource{Name: "one"}), "empty"},
		{"another type", pack(&discovery.DiscoveryRequest{}), "DiscoveryRequest"},
		{"no message", &anypb.Any{TypeUrl: Type, Value: []byte("\xff\xff")}, "proto"},
		{"an envelope of nonsense", &anypb.Any{TypeUrl: "type.googleapis.com/envoy.service.discovery.v3.Resource", Value: []byte("\xff")}, "proto"},
		{"nothing", nil, "type"},
	} {
		got, err := unpack(test.packed)
		switch {
		case test.says == "" && (err != nil || got.GetDomain() != "one"):
			t.Errorf("%s: %v, %v", test.what, got, err)
		case test.says != "" && !strings.Contains(fmt.Sprint(err), test.says):
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

// TestReasonsAreShort, whatever stands in a resource.
func TestReasonsAreShort(t *testing.T) {
	if got := shorten(strings.Repeat("é", mostReason)); len(got) > mostReason+10 || !strings.HasSuffix(got, " …") {
		t.Errorf("%d bytes", len(got))
	}
	if got := shorten("a\xff"); got != "a�" {
		t.Errorf("%q", got)
	}
}
