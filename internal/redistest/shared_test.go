package redistest

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// remembered are servers that outlive their tests: the shared ones.
var remembered []*Server

func TestSharedServerIsOne(t *testing.T) {
	server := Shared(t)
	remembered = append(remembered, server)
	if again := Shared(t); again != server {
		t.Errorf("Shared returned %s, then %s", server.Addr(), again.Addr())
	}
	roundTrip(t, server.Client(t), Prefix(t)+"key")
}

func TestSharedClusterIsOneAndCannotBeStopped(t *testing.T) {
	var first *Cluster
	t.Run("the first test", func(t *testing.T) { first = SharedCluster(t) })
	if first == nil {
		t.Skip("no cluster was started")
	}
	remembered = append(remembered, first.Nodes()...)
	again := SharedCluster(t)
	if again != first {
		t.Errorf("SharedCluster returned %s, then %s", first.URL(), again.URL())
	}
	roundTrip(t, again.Client(t), Prefix(t)+"key")
	if v := judge(t, again.Nodes()[0].Stop); !strings.Contains(v.failed, "use Start") {
		t.Errorf("Stop failed with %q", v.failed)
	}
}

func TestSharedServerCannotBeStopped(t *testing.T) {
	server := Shared(t)
	for name, act := range map[string]func(testing.TB){
		"Stop": server.Stop, "Restart": server.Restart, "Pause": server.Pause, "Resume": server.Resume,
	} {
		if v := judge(t, act); !strings.Contains(v.failed, "use Start") {
			t.Errorf("%s failed with %q", name, v.failed)
		}
	}
}

func TestSharedServerMayBeSomebodyElses(t *testing.T) {
	server := Start(t)
	t.Setenv(sharedURL, server.URL()+"/3")
	shared, err := makeShared()
	if err != nil {
		t.Fatal(err)
	}
	if shared.Addr() != server.Addr() {
		t.Errorf("Addr() = %q, want %q", shared.Addr(), server.Addr())
	}
	roundTrip(t, shared.Client(t), "key")
	other := server.Client(t, func(o *redis.Options) { o.DB = 3 })
	if got := other.Exists(t.Context(), "key").Val(); got != 1 {
		t.Error("the key is not in the database that the URL names")
	}
	if v := judge(t, shared.Stop); !strings.Contains(v.failed, "use Start") {
		t.Errorf("Stop failed with %q", v.failed)
	}
}

func TestSharedServerOfABadURLIsAnError(t *testing.T) {
	t.Setenv(sharedURL, "http://localhost")
	if _, err := makeShared(); err == nil || !strings.Contains(err.Error(), sharedURL) {
		t.Errorf("makeShared = %v, want an error that names %s", err, sharedURL)
	}
}

func TestPrefixIsUnique(t *testing.T) {
	if first, second := Prefix(t), Prefix(t); first == second {
		t.Errorf("two prefixes are %q", first)
	}
}

// Run fails where a test has left a goroutine behind.
func TestGoroutinesThatStayAreFound(t *testing.T) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { <-stop; close(ended) }()
	if err := leaked(0); err == nil || !strings.Contains(err.Error(), "TestGoroutinesThatStayAreFound") {
		t.Errorf("found %v, want the goroutine of this test", err)
	}
	close(stop)
	<-ended
}
