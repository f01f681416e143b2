package redistest

import (
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestSentinelNamesItsMasterAndReplacesIt(t *testing.T) {
	var sentinel *Sentinel
	t.Run("serves", func(t *testing.T) {
		sentinel = StartSentinel(t)
		asked := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
		defer asked.Close()
		address, err := asked.GetMasterAddrByName(t.Context(), sentinel.MasterName()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := net.JoinHostPort(address[0], address[1]); got != sentinel.Master().Addr() {
			t.Errorf("the sentinel names %s, want %s", got, sentinel.Master().Addr())
		}
		client := sentinel.Client(t)
		roundTrip(t, client, "key")

		sentinel.Master().Stop(t)
		ctx, cancel := patiently(t)
		defer cancel()
		if err := poll(ctx, func() error { return client.Set(ctx, "other", 1, 0).Err() }); err != nil {
			t.Fatal(err)
		}
		if got := sentinel.Replica().Client(t).Get(t.Context(), "other").Val(); got != "1" {
			t.Errorf("the replica has %q after the failover, want 1", got)
		}
	})
	if sentinel == nil {
		t.Skip("no sentinel was started")
	}
	for _, server := range []*Server{sentinel.sentinel, sentinel.master, sentinel.replica} {
		if err := dead(server); err != nil {
			t.Error(err)
		}
	}
}
