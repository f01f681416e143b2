package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// sharedURL is the environment variable that names a server to be used by
// [Shared], in the form that redis.ParseURL takes.
const sharedURL = "RATELIMIT_TEST_REDIS_URL"

// shared is the one server of this test binary, and its one cluster. Its fields need the lock.
var shared struct {
	sync.Mutex

	owned  bool // Run will end them
	asked  bool // there is a server, or an error
	server *Server
	err    error

	nodes   []*Server // of the cluster, or of one that could not be started
	cluster *Cluster
}

var errNotOwned = errors.New("redistest: a shared server needs a TestMain that calls Run")

// lingering is longer than a client of Redis needs to notice that its caller has gone
// away: go-redis gives a connection or a reply up after 5 seconds.
const lingering = 12 * time.Second

// Run runs the tests of a package, then stops the server that [Shared] started
// for them, and returns the code to exit with. It is called by TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
//
// No goroutine, process or directory is left when it returns. Tests that leave a
// goroutine behind have failed.
func Run(m *testing.M) int {
	claim()
	code := m.Run()
	if err := errors.Join(release(), leaked(lingering)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// leaked returns an error if goroutines of tests stay for long.
func leaked(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Shared returns the server that the tests of this binary share, started when
// the first of them asks. Each test keeps its keys apart with [Prefix], and
// changes nothing that others see: no flush, no configuration, no stop.
//
// Where the environment variable RATELIMIT_TEST_REDIS_URL names a server, that
// one is used. It is shared with the tests of other packages too.
//
// The package's TestMain must use [Run], which stops the server.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	server, err := sharedServer()
	if err != nil {
		giveUp(tb, err)
	}
	return server
}

// SharedCluster returns the cluster that the tests of this binary share, started when the
// first of them asks: a cluster takes two seconds to start. The rules are those of [Shared],
// except that scripts may be flushed. It is always the binary's own.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	switch {
	case !shared.owned:
		tb.Fatal(errNotOwned)
	case shared.cluster == nil && len(shared.nodes) > 0:
		tb.Fatal("redistest: the shared cluster could not be started for an earlier test")
	case shared.cluster == nil:
		shared.cluster = startCluster(tb, func(node *Server) {
			node.shared = true
			shared.nodes = append(shared.nodes, node)
		})
	}
	return shared.cluster
}

func claim() {
	shared.Lock()
	defer shared.Unlock()
	shared.owned = true
}

func release() error {
	shared.Lock()
	defer shared.Unlock()
	ended := shared.nodes
	if shared.server != nil && shared.server.process != nil {
		ended = append(ended, shared.server)
	}
	shared.owned, shared.asked, shared.server, shared.err = false, false, nil, nil
	shared.nodes, shared.cluster = nil, nil
	failures := make([]error, 0, len(ended))
	for _, server := range ended {
		server.process.stop()
		failures = append(failures, server.process.remove())
	}
	return errors.Join(failures...)
}

func sharedServer() (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if !shared.owned {
		return nil, errNotOwned
	}
	if !shared.asked {
		shared.asked = true
		shared.server, shared.err = makeShared()
	}
	return shared.server, shared.err
}

func makeShared() (*Server, error) {
	if url := os.Getenv(sharedURL); url != "" {
		return outside(url)
	}
	server, err := start(plan{prepare: alone(nil)})
	if err != nil {
		return nil, err
	}
	server.shared = true
	return server, nil
}

// outside returns a server that was started elsewhere, after it has answered.
func outside(url string) (*Server, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redistest: %s: %w", sharedURL, err)
	}
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = client.Ping(ctx).Err()
	if err := errors.Join(err, client.Close()); err != nil {
		return nil, fmt.Errorf("redistest: the server that %s names: %w", sharedURL, err)
	}
	return &Server{url: url, address: options.Addr, shared: true}, nil
}
