package faults_test

import (
	"testing"

	"github.com/weir-go/ratelimit/internal/faultproxy"
)

// passing are faults of a site whose server keeps what it has answered (keepsAll). After
// them all is as it was.
var passing = []struct {
	name       string
	begin, end func(t *testing.T, s *site)
}{
	{"a frozen server", func(t *testing.T, s *site) { s.server.Pause(t) }, func(t *testing.T, s *site) { s.server.Resume(t) }},
	{"a killed server", func(t *testing.T, s *site) { s.server.Stop(t) }, func(t *testing.T, s *site) { s.server.Restart(t) }},
	{
		"a paused server",
		func(t *testing.T, s *site) { s.do(t, "CLIENT", "PAUSE", "60000", "WRITE") },
		func(t *testing.T, s *site) { s.do(t, "CLIENT", "UNPAUSE") },
	},
	{
		"a full server",
		func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "maxmemory", "1") },
		func(t *testing.T, s *site) { s.do(t, "CONFIG", "SET", "maxmemory", "0") },
	},
	{
		"a server that forbids",
		func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "-evalsha") },
		func(t *testing.T, s *site) { s.do(t, "ACL", "SETUSER", "default", "+evalsha") },
	},
	{"scripts flushed", func(t *testing.T, s *site) { s.do(t, "SCRIPT", "FLUSH") }, nothing},
	{"clients killed", func(t *testing.T, s *site) { s.do(t, "CLIENT", "KILL", "TYPE", "normal") }, nothing},
	{"connections reset", func(_ *testing.T, s *site) { s.proxy.Reset() }, nothing},
	{"a partition", networkOf(faultproxy.Fault{Hold: true}), heal},
	{"nobody listening", networkOf(faultproxy.Fault{Refuse: true}), heal},
	{"requests cut", networkOf(faultproxy.Fault{CutRequests: true}), heal},
	{"answers lost", networkOf(faultproxy.Fault{When: "evalsha", LoseReplies: true}), heal},
	{"answers cut", networkOf(faultproxy.Fault{When: "evalsha", CutReplies: true}), heal},
	{"answers cut short", networkOf(faultproxy.Fault{When: "evalsha", Truncate: 3}), heal},
	{"answers late", networkOf(faultproxy.Fault{When: "evalsha", Latency: budget}), heal},
	{"answers garbled", networkOf(faultproxy.Fault{When: "evalsha", Replace: []byte("$7\r\ngarbage\r\n")}), heal},
}

func nothing(*testing.T, *site) {}

func networkOf(f faultproxy.Fault) func(*testing.T, *site) {
	return func(_ *testing.T, s *site) { s.proxy.Set(f) }
}

func heal(_ *testing.T, s *site) { s.proxy.Heal() }
