package redistest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

// Server is one Redis server. Its methods may be used by several goroutines,
// except for the ones that end, start or halt it.
type Server struct {
	url     string
	address string
	process *process // nil when the server was started elsewhere
	shared  bool     // other tests use it too
}

// Start starts a server that keeps nothing on disk and waits until it answers.
// It ends with the test. The arguments are those of redis-server, such as
// "--maxmemory", "1mb"; they override the arguments of Start itself, except the port
// and the directory.
//
// Without a server program the test is skipped, or fails when CI=true.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	server, err := start(plan{prepare: alone(args)})
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { server.end(tb) })
	return server
}

// Launch starts a server for a program that is no test, as [Start] does, and
// returns it with the function that ends it. The methods of the server that
// take a test are not for such a program.
func Launch(args ...string) (*Server, func() error, error) {
	server, err := start(plan{prepare: alone(args)})
	if err != nil {
		return nil, nil, err
	}
	return server, func() error {
		server.process.stop()
		return server.process.remove()
	}, nil
}

// Prefix returns a prefix for keys that no other test uses, so that tests can
// share a server.
func Prefix(tb testing.TB) string {
	tb.Helper()
	return tb.Name() + ":" + rand.Text() + ":"
}

func start(p plan) (*Server, error) {
	started, err := launch(p)
	if err != nil {
		return nil, err
	}
	address := addressOf(started.port)
	return &Server{url: "redis://" + address, address: address, process: started}, nil
}

// alone prepares a server without persistence.
func alone(arguments []string) func(directory string, port int) ([]string, error) {
	return func(directory string, port int) ([]string, error) {
		return slices.Concat(
			[]string{"--bind", loopback, "--save", "", "--appendonly", "no", "--daemonize", "no"},
			arguments,
			[]string{"--port", strconv.Itoa(port), "--dir", directory},
		), nil
	}
}

// giveUp ends the test: without a server program it skips it, unless CI=true.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// Addr returns the server's address, such as "127.0.0.1:40961".
func (s *Server) Addr() string { return s.address }

// URL returns the server's address as redis.ParseURL takes it, such as
// "redis://127.0.0.1:40961".
func (s *Server) URL() string { return s.url }

// Client returns a client of the server, closed with the test: one that heeds deadlines
// and repeats nothing, as core.Open makes it. The opts change the client's options before
// it is made.
func (s *Server) Client(tb testing.TB, opts ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(s.url)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	options.ContextTimeoutEnabled, options.MaxRetries = true, -1
	for _, change := range opts {
		change(options)
	}
	if options.Dialer == nil { // as core.Open has it
		options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
	}
	client := redis.NewClient(options)
	tb.Cleanup(func() { closeClient(tb, client) })
	return client
}

// Calls returns how often clients, and scripts, have called a command since the
// server started: the difference of two results is the count between them. The
// command is in the form of INFO commandstats: "evalsha", or "script|load" (before Redis 7: "script").
//
// It counts everybody's calls, so it proves little on a [Shared] server.
func (s *Server) Calls(tb testing.TB, command string) int {
	tb.Helper()
	ctx, cancel := patiently(tb)
	defer cancel()
	client := s.Client(tb)
	statistics, err := client.Info(ctx, "commandstats").Result()
	if err := errors.Join(err, client.Close()); err != nil {
		tb.Fatalf("redistest: counting %s: %v", command, err)
	}
	calls, err := callsIn(statistics, command)
	if err != nil {
		tb.Fatal(err)
	}
	return calls
}

// callsIn finds a command's count in the reply to INFO commandstats.
func callsIn(statistics, command string) (int, error) {
	own := "cmdstat_" + strings.ToLower(command) + ":calls="
	for line := range strings.Lines(statistics) {
		rest, found := strings.CutPrefix(line, own)
		if !found {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.Atoi(digits)
		if err != nil {
			return 0, fmt.Errorf("redistest: counting %s: %w", command, err)
		}
		return calls, nil
	}
	return 0, nil
}

// Stop kills the server, as a crash would, and returns when it is gone. The
// connections to it break. Only servers made by [Start], [StartCluster] and
// [StartSentinel] can be stopped.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.own(tb).stop()
}

// Restart stops the server if it runs, starts it again on the same port, and
// waits until it answers. Its data and its scripts are gone.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	own := s.own(tb)
	own.stop()
	ctx, cancel := patiently(tb)
	defer cancel()
	var failure error
	// A connection of some other process may hold the port for a moment.
	if err := poll(ctx, func() error {
		failure = own.start()
		if errors.Is(failure, errPortTaken) {
			return failure
		}
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
	if failure != nil {
		tb.Fatal(failure)
	}
}

// Pause halts the server until Resume: connections stay open, and nothing is
// answered. A paused server can still be stopped, and ends with the test.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	ctx, cancel := patiently(tb)
	defer cancel()
	if err := s.own(tb).signal(ctx, "STOP"); err != nil {
		tb.Fatal(err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	ctx, cancel := patiently(tb)
	defer cancel()
	if err := s.own(tb).signal(ctx, "CONT"); err != nil {
		tb.Fatal(err)
	}
}

// own returns the process, of a server that is the test's own.
func (s *Server) own(tb testing.TB) *process {
	tb.Helper()
	if s.shared {
		tb.Fatalf("redistest: the server at %s is not this test's own; use Start", s.address)
	}
	return s.process
}

// end stops the server and removes its files.
func (s *Server) end(tb testing.TB) {
	tb.Helper()
	s.process.stop()
	if err := s.process.remove(); err != nil {
		tb.Error(err)
	}
}

// closeClient closes a client that the test may have closed itself.
func closeClient(tb testing.TB, client redis.UniversalClient) {
	tb.Helper()
	if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		tb.Errorf("redistest: closing the client of a test: %v", err)
	}
}
