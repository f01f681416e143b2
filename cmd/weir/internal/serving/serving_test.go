package serving

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// patience is how long a test waits for an event that is certain to come.
const patience = time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it has not happened in %v", what, patience)
		}
	}
}

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// count returns how often a text stands in the log.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), text)
}

const limits = `
domain: d
descriptors:
  - {key: two, rate_limit: {unit: day, requests_per_unit: 2}}
`

// write writes a file of a directory.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running is a service of a test.
type running struct {
	Addresses

	log  *journal
	end  context.CancelFunc
	done chan error
}

// start runs a service by a file, in memory, on free ports.
func start(t *testing.T, change func(*Settings)) *running {
	t.Helper()
	settings, err := FromEnvironment(nil)
	if err != nil {
		t.Fatal(err)
	}
	settings.GRPC, settings.HTTP, settings.Debug, settings.Store.URL = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "memory:"
	settings.Every, settings.Rules.Timeout, settings.Leave = 5*time.Millisecond, patience, 0
	change(&settings)
	if settings.Config == "/srv/runtime_data/current/config" {
		settings.Config = write(t, t.TempDir(), "limits.yaml", limits)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{log: &journal{}, end: cancel, done: make(chan error, 1)}
	ready := make(chan Addresses, 1)
	go func() {
		r.done <- Run(ctx, settings, slog.New(slog.NewTextHandler(r.log, nil)), func(a Addresses) { ready <- a })
	}()
	select {
	case r.Addresses = <-ready:
	case err := <-r.done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// dial opens a connection of gRPC.
func dial(t *testing.T, target string, transport credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func (r *running) connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return dial(t, r.GRPC.String(), insecure.NewCredentials())
}

// ask asks about a key, and returns the answer and how many units are left.
func ask(t *testing.T, connection *grpc.ClientConn, key string) (code pb.RateLimitResponse_Code, left uint32, err error) {
	t.Helper()
	response, err := pb.NewRateLimitServiceClient(connection).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: key}}}},
	})
	if err != nil {
		return 0, 0, err
	}
	return response.GetOverallCode(), response.GetStatuses()[0].GetLimitRemaining(), nil
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestServes asks a service in each of its ways.
func TestServes(t *testing.T) {
	r := start(t, func(*Settings) {})
	connection := r.connect(t)
	for _, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT} {
		if code, _, err := ask(t, connection, "two"); code != want || err != nil {
			t.Errorf("%v, %v, want %v", code, err, want)
		}
	}
	for _, name := range []string{"", "ratelimit"} {
		answer, err := healthpb.NewHealthClient(connection).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("the health of %q: %v, %v", name, answer, err)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(connection).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &reflectionpb.ServerReflectionRequest_ListServices{}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: list}); err != nil {
		t.Fatal(err)
	}
	services, err := stream.Recv()
	if err != nil || !strings.Contains(services.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("reflection: %v, %v", services, err)
	}
	const question = `{"domain": "d", "descriptors": [{"entries": [{"key": "two"}]}]}`
	response, err := http.Post("http://"+r.HTTP.String()+"/json", "application/json", strings.NewReader(question))
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("/json: %v, %v", response, err)
	}
	_ = response.Body.Close()
	if code, body := get(t, "http://"+r.HTTP.String()+"/healthcheck"); code != http.StatusOK || body != "OK" {
		t.Errorf("/healthcheck: %d %q", code, body)
	}
	if _, body := get(t, "http://"+r.Debug.String()+"/rlconfig"); !strings.HasPrefix(body, "d.two: unit=DAY requests_per_unit=2") {
		t.Errorf("/rlconfig: %q", body)
	}
	if _, body := get(t, "http://"+r.Debug.String()+"/"); !strings.Contains(body, "/rlconfig") {
		t.Errorf("/: %q", body)
	}
}

// TestReload: other limits count what was used, and files that make no sense change nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "limits.yaml", limits)
	r := start(t, func(s *Settings) { s.Config = dir })
	connection := r.connect(t)
	left := func() uint32 {
		t.Helper()
		_, left, err := ask(t, connection, "two")
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	if got := left(); got != 1 {
		t.Errorf("%d left", got)
	}
	write(t, dir, "limits.yaml", strings.Replace(limits, "requests_per_unit: 2", "requests_per_unit: none", 1))
	eventually(t, "the mistake is told", func() bool {
		return r.log.has("limits.yaml:4:59: requests_per_unit is a whole number") && r.log.has("the former one stays")
	})
	if got := left(); got != 0 {
		t.Errorf("%d left by the former limit", got)
	}
	write(t, dir, "limits.yaml", strings.Replace(limits, "requests_per_unit: 2", "requests_per_unit: 20", 1))
	eventually(t, "the new limit counts", func() bool { return r.log.has("the configuration was read anew") })
	if got := left(); got != 17 {
		t.Errorf("%d left by the new limit, want 17", got)
	}
	if code, _ := get(t, "http://"+r.HTTP.String()+"/healthcheck"); code != http.StatusOK {
		t.Errorf("/healthcheck: %d", code)
	}
}

// TestHalfAFileIsLeftAlone looks at a file while another program writes it.
func TestHalfAFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	limiter := core.New(core.NewMemory())
	t.Cleanup(func() { _ = limiter.Close() })
	s := &server{
		settings: Settings{Config: write(t, dir, "limits.yaml", limits)}, logger: slog.New(slog.DiscardHandler), service: rls.New(limiter, rls.Options{}),
	}
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
	whole := limits + "  - {key: three, rate_limit: {unit: day, requests_per_unit: 3}}\n"
	for i, step := range []struct{ text, has string }{
		{"domain: d\n", "d.two"},
		{limits + "  - {key: half}\n", "d.two"},
		{whole, "d.two"},
		{whole, "d.three"},
		{whole, "d.three"},
		{"domain: [", "d.three"},
		{"domain: [", "d.three"},
		{limits, "d.three"},
		{limits, "d.two"},
	} {
		write(t, dir, "limits.yaml", step.text)
		s.again()
		if dump := s.service.Config().Dump(); !strings.Contains(dump, step.has) || strings.Contains(dump, "d.three") != (step.has == "d.three") {
			t.Errorf("after look %d the limits are %s", i+1, dump)
		}
	}
}

// TestAnEmptyDirectoryReplacesNothing: a volume that is being exchanged is empty for a while.
func TestAnEmptyDirectoryReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "limits.yaml", limits)
	r := start(t, func(s *Settings) { s.Config = dir })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told", func() bool { return r.log.has("there is no file") && r.log.has("the former one stays") })
	if _, left, err := ask(t, r.connect(t), "two"); err != nil || left != 1 {
		t.Errorf("%d left, %v", left, err)
	}
}

// TestAMistakeIsToldOnce, however often the files are looked at, also if they are gone.
func TestAMistakeIsToldOnce(t *testing.T) {
	file := write(t, t.TempDir(), "limits.yaml", limits)
	r := start(t, func(s *Settings) { s.Config = file })
	for range 2 {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		before := r.log.count("no such file")
		eventually(t, "it is told", func() bool { return r.log.count("no such file") > before })
		reads := r.log.count("read anew")
		write(t, filepath.Dir(file), "limits.yaml", limits)
		eventually(t, "the file is read again", func() bool { return r.log.count("read anew") > reads })
		if told := r.log.count("no such file") - before; told != 1 {
			t.Errorf("it is told %d times", told)
		}
	}
}

// TestStartWithMistakes: a service does not start by files that make no sense, unless it is told to.
func TestStartWithMistakes(t *testing.T) {
	file := write(t, t.TempDir(), "limits.yaml", "domain: [")
	settings, _ := FromEnvironment(nil)
	settings.Config, settings.Store.URL = file, "memory:"
	err := Run(t.Context(), settings, slog.New(slog.DiscardHandler), func(Addresses) {})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "limits.yaml:1:") {
		t.Errorf("%v", err)
	}
	r := start(t, func(s *Settings) { s.Config, s.StartWithout = file, true })
	if code, body := get(t, "http://"+r.HTTP.String()+"/healthcheck"); code != http.StatusInternalServerError || !strings.Contains(body, "no configuration") {
		t.Errorf("/healthcheck: %d %q", code, body)
	}
	if _, _, err := ask(t, r.connect(t), "two"); status.Code(err) != codes.Unknown {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the configuration is there", func() bool {
		code, _ := get(t, "http://"+r.HTTP.String()+"/healthcheck")
		return code == http.StatusOK
	})
}

// TestEndAnswersWhatWasBegun: a service that ends tells it to those that watch.
func TestEndAnswersWhatWasBegun(t *testing.T) {
	r := start(t, func(*Settings) {})
	connection := r.connect(t)
	if _, _, err := ask(t, connection, "two"); err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := <-r.done; err != nil {
		t.Errorf("it has ended with %v", err)
	}
	r.done <- nil
	if _, _, err := ask(t, connection, "two"); status.Code(err) != codes.Unavailable {
		t.Errorf("after its end: %v", err)
	}
}

// kept is a connection of HTTP that a client keeps.
type kept struct {
	net.Conn

	reader *bufio.Reader
}

func keep(t *testing.T, address net.Addr) *kept {
	t.Helper()
	connection, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return &kept{connection, bufio.NewReader(connection)}
}

// health asks for the health, and returns its status, and whether the server closes the connection after that.
func (k *kept) health(t *testing.T) (status int, closes bool) {
	t.Helper()
	if _, err := io.WriteString(k, "GET /healthcheck HTTP/1.1\r\nHost: weir.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(k.reader, nil)
	if err != nil {
		t.Fatalf("a kept connection is not answered: %v", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, response.Close
}

// TestLeaves: at the end, a service is not well, and goes on answering, on all its connections and on new ones, until its time is over. Each answer of HTTP
// closes its connection, so that then no client sends on one which the server closes.
func TestLeaves(t *testing.T) {
	over := make(chan time.Time)
	r := start(t, func(s *Settings) {
		s.Config = write(t, t.TempDir(), "limits.yaml", strings.Replace(limits, "requests_per_unit: 2", "requests_per_unit: 1000000000", 1))
		s.Leave, s.after = time.Hour, func(time.Duration) <-chan time.Time { return over }
	})
	idle, connection := keep(t, r.HTTP), r.connect(t)
	if status, closes := idle.health(t); status != http.StatusOK || closes {
		t.Errorf("before the end, the health is %d; the connection is closed: %t", status, closes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := healthpb.NewHealthClient(connection).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the health by gRPC is %v, %v", answer, err)
	}
	var leaving, stopped atomic.Bool
	var answered atomic.Int64 // since the service leaves
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for !stopped.Load() {
				ends := leaving.Load()
				response, err := client.Post("http://"+r.HTTP.String()+"/json", "application/json", strings.NewReader(
					`{"domain": "d", "descriptors": [{"entries": [{"key": "two"}]}]}`))
				if err != nil {
					t.Errorf("a busy client: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK || ends && !response.Close {
					t.Errorf("a busy client is answered %d; the connection is closed: %t", response.StatusCode, response.Close)
					return
				}
				if ends {
					answered.Add(1)
				}
			}
		})
	}
	finish := sync.OnceFunc(func() {
		stopped.Store(true)
		clients.Wait()
		cancel()
		close(over)
	})
	t.Cleanup(finish) // also if the test fails
	r.end()
	if answer, err := stream.Recv(); err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("at the end, the health by gRPC is %v, %v", answer, err)
	}
	leaving.Store(true)
	if status, closes := idle.health(t); status != http.StatusInternalServerError || !closes {
		t.Errorf("at the end, the health is %d; the connection is closed: %t", status, closes)
	}
	if status, closes := keep(t, r.HTTP).health(t); status != http.StatusInternalServerError || !closes {
		t.Errorf("on a new connection, the health is %d; the connection is closed: %t", status, closes)
	}
	for what, one := range map[string]*grpc.ClientConn{"the connection of before": connection, "a new one": r.connect(t)} {
		if _, _, err := ask(t, one, "two"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	eventually(t, "the busy clients are answered", func() bool { return answered.Load() >= 160 || t.Failed() })
	select {
	case err := <-r.done:
		t.Fatalf("it has ended before its time: %v", err)
	default:
	}
	finish()
	if err := <-r.done; err != nil {
		t.Errorf("it has ended with %v", err)
	}
	r.done <- nil
}

// TestLeavesNoLongerThanItListens: where a listener fails while the service leaves, it ends.
func TestLeavesNoLongerThanItListens(t *testing.T) {
	never := Settings{Leave: time.Hour, after: func(time.Duration) <-chan time.Time { return nil }}
	s := &server{settings: never, logger: slog.New(slog.DiscardHandler), health: health.NewServer()}
	failed := make(chan error, 1)
	failed <- net.ErrClosed
	if err := s.leave(failed); !errors.Is(err, net.ErrClosed) || !s.ending.Load() {
		t.Errorf("%v", err)
	}
}

// TestUnixSocket serves on a socket, also where a killed process has left one.
func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	start(t, func(s *Settings) { s.Socket = path })
	if code, _, err := ask(t, dial(t, "unix:"+path, insecure.NewCredentials()), "two"); code != pb.RateLimitResponse_OK || err != nil {
		t.Errorf("%v, %v", code, err)
	}
	file := write(t, dir, "file", "kept")
	settings, _ := FromEnvironment(nil)
	settings.Socket, settings.Config, settings.Store.URL = file, write(t, dir, "limits.yaml", limits), "memory:"
	if err := Run(t.Context(), settings, slog.New(slog.DiscardHandler), func(Addresses) {}); err == nil {
		t.Error("it listens on a file")
	}
	if text, err := os.ReadFile(file); string(text) != "kept" || err != nil {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestRedisGone: the error mode answers while Redis is down or hangs, the health tells it, and all is well again with Redis.
func TestRedisGone(t *testing.T) {
	redis := redistest.Start(t)
	r := start(t, func(s *Settings) { s.Store.URL, s.Rules.Timeout = redis.URL(), 2*time.Second })
	connection := r.connect(t)
	if code, _, err := ask(t, connection, "two"); code != pb.RateLimitResponse_OK || err != nil {
		t.Fatalf("%v, %v", code, err)
	}
	health := func() int {
		code, _ := get(t, "http://"+r.HTTP.String()+"/healthcheck")
		return code
	}
	redis.Pause(t)
	if _, _, err := ask(t, connection, "two"); status.Code(err) != codes.Unavailable { // the caller has no deadline
		t.Errorf("Redis hangs: %v", err)
	}
	eventually(t, "the health tells it", func() bool { return health() == http.StatusInternalServerError })
	redis.Resume(t)
	eventually(t, "the health is good again", func() bool { return health() == http.StatusOK })
	eventually(t, "requests are answered again", func() bool {
		_, _, err := ask(t, connection, "two")
		return err == nil
	})
	redis.Stop(t)
	if _, _, err := ask(t, connection, "two"); status.Code(err) != codes.Unavailable {
		t.Errorf("Redis is down: %v", err)
	}
}

// authority signs certificates for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{certificate, key, write(t, dir, name+".pem", string(text))}
}

// sign writes a certificate and its key.
func (a *authority) sign(t *testing.T, dir, file, name string) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, dir, file+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, dir, file+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// TestTLS: clients need a certificate of the authority, with the name, and the server's own is read anew.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	cert, key := ours.sign(t, dir, "server", "one.test")
	r := start(t, func(s *Settings) { s.TLS = TLS{Cert: cert, Key: key, ClientCA: ours.file, ClientName: "proxy.test"} })
	client := func(from *authority, name, server string) error {
		t.Helper()
		roots, err := readAuthorities(ours.file)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{RootCAs: roots, ServerName: server}
		if from != nil {
			own, err := tls.LoadX509KeyPair(from.sign(t, dir, "client", name))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{own}
		}
		_, _, err = ask(t, dial(t, r.GRPC.String(), credentials.NewTLS(config)), "two")
		return err
	}
	for _, test := range []struct {
		what    string
		from    *authority
		name    string
		answers bool
	}{
		{"the proxy", ours, "proxy.test", true},
		{"a client without a certificate", nil, "", false},
		{"a client of another authority", others, "proxy.test", false},
		{"a client of another name", ours, "other.test", false},
	} {
		if err := client(test.from, test.name, "one.test"); (err == nil) != test.answers {
			t.Errorf("%s: %v", test.what, err)
		}
	}
	write(t, dir, "server.crt", "nonsense")
	if err := client(ours, "proxy.test", "one.test"); err != nil || !r.log.has("the former ones serve") {
		t.Errorf("with a file that makes no sense: %v", err)
	}
	ours.sign(t, dir, "server", "another.test")
	if err := client(ours, "proxy.test", "another.test"); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
}

// TestFilesOfAVolume reads a directory as Kubernetes mounts it: files that are links into a hidden directory.
func TestFilesOfAVolume(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"..2026_11", "below"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "..2026_11/a.yaml", "domain: a")
	write(t, dir, "below/b.yaml", "domain: b")
	write(t, dir, ".c.yaml", "domain: c")
	for link, to := range map[string]string{"..data": "..2026_11", "a.yaml": "..data/a.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for hidden, want := range map[bool][]string{true: {".c.yaml", "a.yaml", "below/b.yaml"}, false: {"a.yaml", "below/b.yaml"}} {
		files, _, err := readFiles(dir, hidden)
		var names []string
		for _, f := range files {
			name, _ := filepath.Rel(dir, f.Name)
			names = append(names, name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%v, %v, want %v", names, err, want)
		}
	}
	if _, _, err := readFiles(filepath.Join(dir, "none"), true); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestEnvironment: the variables of the reference mean the same.
func TestEnvironment(t *testing.T) {
	s, err := FromEnvironment([]string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "MERGE_DOMAIN_CONFIG=true", "GRPC_PORT=9", "HOST=::1", "PORT=8",
		"DEBUG_HOST=127.0.0.1", "REDIS_URL=redis:6379", "REDIS_SOCKET_TYPE=tcp", "REDIS_AUTH=me:secret", "REDIS_TIMEOUT=50ms", "CACHE_KEY_PREFIX=mine",
		"LOCAL_CACHE_SIZE_IN_BYTES=441", "SHADOW_MODE=1", "QUOTA_MODE=t", "RESPONSE_DYNAMIC_METADATA=true", "GRPC_MAX_CONNECTION_AGE=1m",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=x-reset", "LOG_LEVEL=WARN", "LOG_FORMAT=JSON", "GRPC_SERVER_USE_TLS=true",
		"GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "GRPC_SERVER_TLS_CA_CERT=a", "USE_STATSD=false", "MEMCACHE_TLS=true", "REDIS_POOL_SIZE=7",
		"RUNTIME_WATCH_ROOT=false", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS=true", "HOME=/root",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Config != "/data/ratelimit/config" || s.HiddenFiles || !s.Merge || s.GRPC != "0.0.0.0:9" || s.HTTP != "[::1]:8" || s.Debug != "127.0.0.1:6070" ||
		s.Store.URL != "redis:6379" || s.Store.Socket != "tcp" || s.Store.Auth != "me:secret" || s.Store.Prefix != "mine" || s.Store.Denials != 3 ||
		s.Rules.Timeout != 50*time.Millisecond || !s.Rules.Shadow || !s.Rules.Quota || !s.Rules.Metadata || s.ConnectionAge != time.Minute ||
		s.LogLevel != slog.LevelWarn || !s.LogJSON || s.TLS != (TLS{Cert: "c", Key: "k", ClientCA: "a"}) ||
		s.Rules.Headers != [3]string{"RateLimit-Limit", "RateLimit-Remaining", "x-reset"} {
		t.Errorf("%+v", s)
	}
	want := []string{"MEMCACHE_TLS", "OTEL_EXPORTER_OTLP_ENDPOINT", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "REDIS_POOL_SIZE", "RUNTIME_WATCH_ROOT", "USE_STATSD"}
	if !reflect.DeepEqual(s.Ignored, want) {
		t.Errorf("%v have no effect, want %v", s.Ignored, want)
	}
	cluster, err := FromEnvironment([]string{"REDIS_TYPE=cluster", "REDIS_SOCKET_TYPE=unix"})
	if want := []string{"REDIS_SOCKET_TYPE"}; err != nil || !reflect.DeepEqual(cluster.Ignored, want) {
		t.Errorf("%v have no effect, %v, want %v", cluster.Ignored, err, want)
	}
	plain, err := FromEnvironment(nil)
	if err != nil || plain.Rules.Timeout != 20*time.Millisecond || plain.Rules.Headers[0] != "" || plain.Config != "/srv/runtime_data/current/config" ||
		plain.Debug != "0.0.0.0:6070" || plain.Store.Prefix != "" || plain.Rules.Quota || plain.Rules.Metadata || plain.ConnectionAge != 24*time.Hour ||
		!plain.NeedsStore {
		t.Errorf("%+v, %v", plain, err)
	}
	for _, wrong := range []string{
		"SHADOW_MODE=perhaps", "REDIS_TIMEOUT=-1s", "BACKEND_TYPE=memcache", "GRPC_SERVER_USE_TLS=true", "LOG_LEVEL=loud",
		"LOCAL_CACHE_SIZE_IN_BYTES=-1", "REDIS_SOCKET_TYPE=pipe", "QUOTA_MODE=2", "GRPC_MAX_CONNECTION_AGE=0s",
	} {
		if _, err := FromEnvironment([]string{wrong}); err == nil || !strings.Contains(err.Error(), strings.SplitN(wrong, "=", 2)[0]) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestHotKeysAreLeased asks about one key again and again, until answers have come without a call to Redis.
func TestHotKeysAreLeased(t *testing.T) {
	server := redistest.Start(t)
	file := write(t, t.TempDir(), "limits.yaml", strings.Replace(limits, "requests_per_unit: 2", "requests_per_unit: 1000000", 1))
	r := start(t, func(s *Settings) { s.Store.URL, s.Store.Over, s.Config = server.URL(), 0.01, file })
	connection := r.connect(t)
	requests, before := 0, server.Calls(t, "evalsha")
	eventually(t, "requests are answered without Redis", func() bool {
		for range 100 { // one after the other: none shares a round trip with another one
			requests++
			if code, _, err := ask(t, connection, "two"); code != pb.RateLimitResponse_OK || err != nil {
				t.Fatalf("%v, %v", code, err)
			}
		}
		return requests-(server.Calls(t, "evalsha")-before) > 500
	})
}

// TestStores connects to a server alone and to a cluster, as the variables of the reference name them.
func TestStores(t *testing.T) {
	for name, store := range map[string]Store{
		"an address": {URL: strings.TrimPrefix(redistest.Shared(t).URL(), "redis://"), Kind: "SINGLE", Denials: 10, Prefix: "own"},
		"a cluster":  {URL: strings.Join(redistest.SharedCluster(t).Addrs(), ","), Kind: "CLUSTER"},
		"a URL":      {URL: redistest.Shared(t).URL(), Kind: "SINGLE"},
	} {
		_, limiter, end, err := store.open(patience, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := limiter.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, store := range []Store{
		{URL: "a:1", Kind: "SENTINEL"},
		{URL: "a:1", Kind: "MANY"},
		{URL: "a:1", Kind: "SINGLE", Prefix: "{"},
		{URL: "a:1", Kind: "SINGLE", TLS: true, CA: "none"},
		{URL: "http://a", Kind: "SINGLE"},
	} {
		if _, _, _, err := store.open(time.Second, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v is a store", store)
		}
	}
}

// TestStoreOfASocket connects by the path of a Unix socket, as REDIS_SOCKET_TYPE says, or as the path itself says.
func TestStoreOfASocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	redistest.Start(t, "--unixsocket", path)
	for _, variables := range [][]string{
		{"REDIS_SOCKET_TYPE=unix", "REDIS_URL=" + path},
		{"REDIS_SOCKET_TYPE=unix", "REDIS_URL=unix://" + path},
		{"REDIS_URL=" + path},
	} {
		s, err := FromEnvironment(variables)
		if err != nil {
			t.Fatal(err)
		}
		_, limiter, end, err := s.Store.open(patience, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%q: %v", variables, err)
			continue
		}
		if err := limiter.Ping(t.Context()); err != nil {
			t.Errorf("%q: %v", variables, err)
		}
		if err := end(); err != nil {
			t.Errorf("%q: %v", variables, err)
		}
	}
	for _, test := range []struct{ says, kind, url string }{
		{"needs the path of a socket", "unix", "localhost:6379"},
		{"needs the path of a socket", "unix", "redis://localhost:6379"},
		{"needs the path of a socket", "unix", ""},
		{"is no address of Redis", "tcp", path},
	} {
		s, err := FromEnvironment([]string{"REDIS_SOCKET_TYPE=" + test.kind, "REDIS_URL=" + test.url})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := s.Store.open(patience, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestStoresWithTLS connects to a server that speaks TLS alone and wants a password.
func TestStoresWithTLS(t *testing.T) {
	server := redistest.StartTLS(t)
	client := server.Client(t)
	redistest.SetUser(t, client, "me", "on >secret ~* &* +@all")
	redistest.SetUser(t, client, "default", "resetpass >other")
	whole := Store{URL: server.TLSAddr(), Kind: "SINGLE", Auth: "me:secret", TLS: true, CA: server.Authority()}
	anyName, unknown, password := whole, whole, whole
	anyName.URL, anyName.AnyName = strings.Replace(whole.URL, "127.0.0.1", "localhost", 1), true
	unknown.CA = ""
	password.Auth = "me:wrong"
	for _, test := range []struct {
		what    string
		store   Store
		answers bool
	}{{"all is right", whole, true}, {"any name", anyName, true}, {"an unknown authority", unknown, false}, {"a wrong password", password, false}} {
		_, limiter, end, err := test.store.open(patience, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		if err := limiter.Ping(t.Context()); (err == nil) != test.answers {
			t.Errorf("%s: %v", test.what, err)
		}
		_ = end()
	}
}
