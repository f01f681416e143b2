package faults_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
)

// Whatever the network does, a call ends within its budget, what is charged is
// what was admitted, and all is normal when the network is.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault faultproxy.Fault
	}{
		{"latency beyond the budget", faultproxy.Fault{Latency: 2 * budget}},
		{"a partition", faultproxy.Fault{Hold: true}},
		{"replies that never come", faultproxy.Fault{LoseReplies: true}},
		{"resets before the server has seen the call", faultproxy.Fault{CutRequests: true}},
		{"resets after the server has decided", faultproxy.Fault{CutReplies: true}},
		{"resets of what has been charged", faultproxy.Fault{When: "evalsha", CutReplies: true}},
		{"answers cut short", faultproxy.Fault{When: "evalsha", Truncate: 3}},
		{"answers that never come", faultproxy.Fault{When: "evalsha", LoseReplies: true}},
		{"nobody listens", faultproxy.Fault{Refuse: true}},
		{"no bandwidth", faultproxy.Fault{Bandwidth: 20}},
		{"a reply cut short", faultproxy.Fault{Truncate: 3}},
		{"another protocol", faultproxy.Fault{Replace: []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")}},
		{"binary garbage", faultproxy.Fault{Replace: []byte("\x00\xff\xfe$-7\r\n*9999999999\r\n\x00")}},
		// Not gigabytes: go-redis sets the memory aside before it reads, and clearing so
		// much takes longer than any budget.
		{"a huge length", faultproxy.Fault{Replace: []byte("$33554432\r\n")}},
		{"an unfinished line", faultproxy.Fault{Replace: []byte("$")}},
		{"words that answer nothing", faultproxy.Fault{When: "evalsha", Replace: []byte("$7\r\ngarbage\r\n")}},
		{"the answer to another command", faultproxy.Fault{Replace: []byte("+OK\r\n")}},
		{"nothing", faultproxy.Fault{Replace: []byte("_\r\n")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			l := begin(t, budget, s.limiters(t)...)
			l.awaitNormal()
			s.proxy.Set(test.fault)
			l.awaitFailures(outage)
			l.await("the server is spared", func() bool { return l.seen(core.Suspended) })
			s.proxy.Heal()
			l.awaitNormal()
			l.close(s.reader(t), 0)
		})
	}
}

// What a network does to a call that has time enough, it survives.
func TestNetworkThatIsBadButNotBroken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault faultproxy.Fault
	}{
		{"latency within the budget", faultproxy.Fault{Latency: budget / 4}},
		{"little bandwidth", faultproxy.Fault{Bandwidth: 2000}},
		{"connections that close late", faultproxy.Fault{CloseDelay: time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			l := begin(t, patient, s.heeding(t, patient), s.ignoring(t, patient))
			l.awaitNormal()
			s.proxy.Set(test.fault)
			l.awaitNormal()
			s.proxy.Heal()
			l.awaitNormal()
			l.close(s.reader(t), 0)
			if n := l.failed.Load(); n > 0 {
				t.Errorf("%d calls failed: %v", n, l.failures)
			}
		})
	}
}

// A connection that breaks while nobody uses it costs nobody an answer.
func TestIdleConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	limiter := s.heeding(t, patient)
	for range 5 {
		if _, err := limiter.Allow(t.Context(), "key", core.Leaky(100, core.PerDay(1))); err != nil {
			t.Fatal(err)
		}
		s.proxy.Reset()
		await(t, "the connections are gone", s.noConnections)
	}
}

// replying is a network that answers for the server.
func replying(words string) faultproxy.Fault { return faultproxy.Fault{Replace: []byte(words)} }
