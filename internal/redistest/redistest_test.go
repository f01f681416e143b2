package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// remembered are servers that outlive their tests: the shared ones.
var remembered []*Server

// TestMain runs the tests and then looks for what they left behind.
func TestMain(m *testing.M) {
	code := Run(m)
	for _, server := range remembered {
		if server.process == nil {
			continue // it is somebody else's
		}
		if err := dead(server); err != nil {
			fmt.Fprintln(os.Stderr, "after Run:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// dead returns nil when nothing of the server is left.
func dead(s *Server) error {
	var dialer net.Dialer
	if connection, err := dialer.DialContext(context.Background(), "tcp", s.Addr()); err == nil {
		return errors.Join(fmt.Errorf("%s still answers", s.Addr()), connection.Close())
	}
	if _, err := os.Stat(s.process.directory); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there: %w", s.process.directory, err)
	}
	return nil
}

func roundTrip(t *testing.T, client redis.UniversalClient, key string) {
	t.Helper()
	if err := client.Set(t.Context(), key, "value of "+key, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), key).Result(); err != nil || got != "value of "+key {
		t.Fatalf("GET %s = %q, %v", key, got, err)
	}
}

func TestStartedServerServesAndEndsWithItsTest(t *testing.T) {
	var server *Server
	t.Run("serves", func(t *testing.T) {
		server = Start(t)
		roundTrip(t, server.Client(t), Prefix(t)+"key")
		if want := "redis://" + server.Addr(); server.URL() != want {
			t.Errorf("URL() = %q, want %q", server.URL(), want)
		}
	})
	if server == nil {
		t.Skip("no server was started")
	}
	if err := dead(server); err != nil {
		t.Error(err)
	}
}

func TestLaunchedServerServesUntilItIsEnded(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	server, end, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, server.Client(t), "key")
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := dead(server); err != nil {
		t.Error(err)
	}
}

func TestLaunchWithoutAServerProgramIsAnError(t *testing.T) {
	t.Setenv(serverProgram, "")
	t.Setenv("PATH", t.TempDir())
	if _, _, err := Launch(); !errors.Is(err, errNotInstalled) {
		t.Errorf("Launch = %v, want %v", err, errNotInstalled)
	}
}

func TestLaunchOfAProgramThatIsNamedAndMissingIsAnError(t *testing.T) {
	t.Setenv(serverProgram, filepath.Join(t.TempDir(), "redis-server"))
	_, _, err := Launch()
	if err == nil || errors.Is(err, errNotInstalled) || !strings.Contains(err.Error(), serverProgram) {
		t.Errorf("Launch = %v, want an error that names %s", err, serverProgram)
	}
}

func TestLaunchStartsTheProgramThatIsNamed(t *testing.T) {
	program, err := installed()
	if err != nil {
		giveUp(t, err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv(serverProgram, program)
	_, end, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestStartedServerKeepsNothing(t *testing.T) {
	client := Start(t).Client(t)
	for name, want := range map[string]string{"save": "", "appendonly": "no", "bind": loopback} {
		if got := client.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("CONFIG GET %s = %q, want %q", name, got, want)
		}
	}
}

func TestStartTakesArguments(t *testing.T) {
	t.Run("a setting", func(t *testing.T) {
		client := Start(t, "--maxmemory", "7mb").Client(t)
		if got := client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "7340032" {
			t.Errorf("CONFIG GET maxmemory = %q, want 7340032", got)
		}
	})
	t.Run("a password", func(t *testing.T) {
		server := Start(t, "--requirepass", "secret")
		roundTrip(t, server.Client(t, func(o *redis.Options) { o.Password = "secret" }), "key")
	})
}

func TestServersStartAtTheSameTime(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			server, err := start(plan{prepare: alone(nil)})
			if err != nil {
				t.Error(err)
				return
			}
			server.end(t)
		})
	}
	group.Wait()
}

func TestFailedStartShowsWhatTheServerWrote(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	_, err := start(plan{prepare: alone([]string{"--no-such-setting", "1"})})
	if !errors.Is(err, errExited) {
		t.Fatalf("start = %v, want %v", err, errExited)
	}
	for _, want := range []string{"Bad directive", "no-such-setting"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestTakenPortIsNotTheEnd(t *testing.T) {
	if _, err := installed(); err != nil {
		giveUp(t, err)
	}
	taken, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	server, err := start(plan{prepare: func(directory string, own int) ([]string, error) {
		arguments, err := alone(nil)(directory, own)
		if tries++; tries == 1 {
			arguments = append(arguments, "--port", port)
		}
		return arguments, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.end(t)
	if tries != 2 {
		t.Errorf("the server was started %d times, want 2", tries)
	}
}

func TestPortsAtTheOffsetsAreFree(t *testing.T) {
	port, err := freePort(busOffset)
	if err != nil {
		t.Fatal(err)
	}
	if port+busOffset > highest {
		t.Errorf("port %d has no bus port", port)
	}
	if _, err := freePort(highest); err == nil {
		t.Error("a port was found with 65535 ports above it")
	}
}

// verdict is a testing.TB that notes how a test was ended.
type verdict struct {
	testing.TB

	skipped, failed string
}

func (v *verdict) Helper() {}

func (v *verdict) Skip(arguments ...any) {
	v.skipped = fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdict) Fatal(arguments ...any) {
	v.failed = fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, arguments ...any) { v.Fatal(fmt.Sprintf(format, arguments...)) }

// judge runs a part of a test that ends early.
func judge(t *testing.T, part func(testing.TB)) *verdict {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(v)
	}()
	<-done
	return v
}

func TestMissingServerSkipsAndFailsInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(serverProgram, "")
	starts := map[string]func(testing.TB){
		"alone":    func(tb testing.TB) { tb.Helper(); Start(tb) },
		"cluster":  func(tb testing.TB) { tb.Helper(); StartCluster(tb) },
		"sentinel": func(tb testing.TB) { tb.Helper(); StartSentinel(tb) },
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", "true")
			if v := judge(t, start); v.skipped != "" || !strings.Contains(v.failed, "make test") {
				t.Errorf("with CI=true: skipped with %q, failed with %q", v.skipped, v.failed)
			}
			t.Setenv("CI", "")
			if v := judge(t, start); v.failed != "" || !strings.Contains(v.skipped, "make test") {
				t.Errorf("without CI: skipped with %q, failed with %q", v.skipped, v.failed)
			}
		})
	}
}

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

func TestCallsAreCounted(t *testing.T) {
	server := Start(t)
	client := server.Client(t)
	script := redis.NewScript(`return redis.call("INCR", KEYS[1])`)
	if err := script.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := script.Run(t.Context(), client, []string{"key"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]int{"evalsha": 3, "EVALSHA": 3, "incr": 3, "script|load": 1, "eval": 0} {
		if got := server.Calls(t, command); got != want {
			t.Errorf("Calls(%q) = %d, want %d", command, got, want)
		}
	}
}

func TestCallsInNonsenseIsAnError(t *testing.T) {
	if _, err := callsIn("cmdstat_get:calls=many,usec=1\r\n", "get"); err == nil {
		t.Error("a count that is no number was taken")
	}
}

func TestRestartedServerIsEmptyAndOnTheSamePort(t *testing.T) {
	server := Start(t)
	client := server.Client(t)
	roundTrip(t, client, "key")
	server.Stop(t)
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answered")
	}
	server.Stop(t)
	server.Restart(t)
	if got, err := server.Client(t).Exists(t.Context(), "key").Result(); err != nil || got != 0 {
		t.Errorf("EXISTS key after a restart = %d, %v", got, err)
	}
	server.Restart(t)
	roundTrip(t, server.Client(t), "key")
}

func TestPausedServerHoldsItsAnswer(t *testing.T) {
	server := Start(t)
	client := server.Client(t, func(o *redis.Options) {
		o.ContextTimeoutEnabled = true
		o.MaxRetries = -1
	})
	roundTrip(t, client, "key")
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("PING of a paused server = %v, want a timeout", err)
	}
	server.Resume(t)
	roundTrip(t, client, "key")
	server.Pause(t) // and it ends with the test all the same
}

func TestClusterServesEverySlotAndEndsWithItsTest(t *testing.T) {
	var cluster *Cluster
	t.Run("serves", func(t *testing.T) {
		cluster = StartCluster(t)
		client := cluster.Client(t)
		for i := range 100 {
			roundTrip(t, client, fmt.Sprintf("key%d", i))
		}
		if got := cluster.Calls(t, "set"); got < 100 {
			t.Errorf("Calls(set) = %d, want at least 100", got)
		}
		for i, node := range cluster.Nodes() {
			if cluster.Addrs()[i] != node.Addr() {
				t.Errorf("Addrs()[%d] = %s, want %s", i, cluster.Addrs()[i], node.Addr())
			}
			if keys := node.Client(t).DBSize(t.Context()).Val(); keys == 0 {
				t.Errorf("node %s has none of 100 keys", node.Addr())
			}
		}
	})
	if cluster == nil {
		t.Skip("no cluster was started")
	}
	for _, node := range cluster.Nodes() {
		if err := dead(node); err != nil {
			t.Error(err)
		}
	}
}

func TestClusterURLNamesEveryNode(t *testing.T) {
	cluster := &Cluster{nodes: []*Server{{address: "127.0.0.1:1"}, {address: "127.0.0.1:2"}, {address: "127.0.0.1:3"}}}
	options, err := redis.ParseClusterURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(options.Addrs, " "), strings.Join(cluster.Addrs(), " "); got != want {
		t.Errorf("%s names %s, want %s", cluster.URL(), got, want)
	}
}

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
