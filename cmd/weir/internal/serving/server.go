package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/forward"
	"github.com/weir-go/ratelimit/cmd/weir/internal/metrics"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rlqs"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/policies"
)

// ErrConfig is in the chain of an error about files that make no sense.
var ErrConfig = errors.New("the configuration makes no sense")

// ErrStore is in the chain of an error about settings by which there is no store.
var ErrStore = errors.New("the settings of the store make no sense")

// Addresses are where a service listens.
type Addresses struct{ GRPC, HTTP, Debug, Metrics net.Addr }

// attributes puts the addresses into a log.
func (a Addresses) attributes() []any {
	all := []any{"http", a.HTTP}
	if a.GRPC != nil {
		all = append(all, "grpc", a.GRPC, "debug", a.Debug)
	}
	if a.Metrics != nil {
		all = append(all, "metrics", a.Metrics)
	}
	return all
}

const (
	// mostMessage is how many bytes a request of gRPC may have.
	mostMessage = 256 << 10
	// mostStreams is how many requests of one connection are answered at once. The others of its client wait. So a connection has 64 MiB at most of requests
	// that are not whole.
	mostStreams = 256
	// shortestPing is how often a client may ask whether its connection still is: Envoy does so at the connection_keepalive of its cluster.
	shortestPing = 100 * time.Millisecond
	// lookEvery is how often the store is asked whether it answers, and lookFor how long it may take.
	lookEvery, lookFor = time.Second, time.Second
	// longestArrival is how long a request of gRPC may take until it is answered, if its client sets no shorter time.
	longestArrival = 30 * time.Second
)

// longestAnswer is how long a request of HTTP may take, with the time that a policy has it wait.
const longestAnswer = 5 * time.Minute

// server is a service that runs.
type server struct {
	settings Settings
	logger   *slog.Logger
	limiter  *core.Limiter
	service  *rls.Service
	quotas   *rlqs.Service
	forward  *forward.Handler // nil: there are no policies
	health   *health.Server
	seen     version // of the files that were read last
	latest   version // of the files when they were looked at last
	wrong    string  // the mistakes in them, which were told

	metrics   *metrics.Metrics // nil: nothing is counted
	metricsAt net.Addr         // nil: they are not served at an address of their own

	ending, storeGone atomic.Bool
}

// Run runs a service until the context ends. It calls ready when all listeners are open.
func Run(ctx context.Context, settings Settings, logger *slog.Logger, ready func(Addresses)) (err error) {
	counts, err := settings.count() //nolint:contextcheck // the work of the store is that of no request
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close(context.WithoutCancel(ctx))) }()
	store, limiter, closeStore, err := settings.Store.open(settings.Rules.Timeout, logger)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	settings.Rules.Logger, settings.Rules.Store = logger, store
	s := &server{
		settings: settings, logger: logger, limiter: limiter, service: rls.New(limiter, settings.Rules), health: health.NewServer(), metrics: counts,
	}
	s.quotas = rlqs.New(store, s.service.Config, rlqs.Options{
		Lease: settings.QuotaLease, Timeout: settings.Rules.Timeout, Logger: logger, Shadow: settings.Rules.Shadow,
		Open: settings.Rules.OnError == rls.Open, Closed: settings.Rules.OnError == rls.Closed,
	})
	if names := settings.ignored(); len(names) > 0 {
		logger.Warn("these variables have no effect", "variables", strings.Join(names, " "))
	}
	if err := errors.Join(s.begin(), s.follow(ctx)); err != nil {
		return err
	}
	endMetrics, err := s.serveMetrics(ctx)
	if err != nil {
		return err
	}
	defer endMetrics()
	stop, err := s.receive(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if ctx.Err() != nil {
		return nil // it was ended before it had a configuration
	}
	s.askStore(ctx)
	return s.serve(ctx, ready)
}

// begin reads the configuration for the first time.
func (s *server) begin() error {
	if s.settings.Config == "" {
		return nil
	}
	config, seen, err := s.settings.load()
	s.seen = seen
	switch {
	case err == nil:
		s.tellWarnings(config.Warnings().Error())
		s.service.Use(config)
		s.logger.Info("the configuration was read", "from", s.settings.Config, "domains", config.Domains())
	case s.settings.StartWithout:
		s.metrics.Configured(false)
		for _, line := range lines(err) {
			s.logger.Error("there is no configuration yet", "error", line)
		}
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w:\n%w: name a file or a directory by -config, or by RUNTIME_ROOT", ErrConfig, err)
	default:
		return fmt.Errorf("%w:\n%w", ErrConfig, err)
	}
	return nil
}

// follow reads the policies, and again when their file has changed, until the context ends.
func (s *server) follow(ctx context.Context) error {
	of := s.settings.Policies
	if of.File == "" {
		return nil
	}
	set, err := policies.Watch(ctx, policies.File(of.File), policies.Options{Every: s.settings.Every, Logger: s.logger})
	if err != nil {
		if files, _, unread := readFiles(of.File, true); unread == nil && len(files) == 1 && descriptors.Recognize(files[0].Text) {
			err = fmt.Errorf("%s is a file of limits for Envoy: name it by -config", of.File)
		}
		return fmt.Errorf("%w:\n%w", ErrConfig, err)
	}
	options := guard.Options{Draining: ctx, Replicas: of.Replicas, Logger: s.logger, Observe: s.metrics.Observe()}
	s.forward, err = forward.New(s.limiter, options, set, of.Trusted...)
	if err != nil {
		return fmt.Errorf("%w:\n%s: %w", ErrConfig, of.File, err)
	}
	s.logger.Info("the policies were read", "from", of.File, "trusted", of.Trusted)
	return nil
}

func (s *server) tellWarnings(text string) {
	for line := range strings.Lines(text) {
		s.logger.Warn(strings.TrimSpace(line))
	}
}

// again reads the configuration anew if the files have changed, and are as they were when they were looked at before: a file that is being written is left
// alone.
func (s *server) again() {
	if s.settings.Config == "" {
		return
	}
	files, seen, err := readFiles(s.settings.Config, s.settings.HiddenFiles)
	settled := seen == s.latest
	s.latest = seen
	if err == nil && seen == s.seen || !settled {
		return
	}
	s.seen = seen
	var config *descriptors.Config
	switch {
	case err == nil && len(files) == 0:
		err = fmt.Errorf("%s: there is no file", s.settings.Config)
	case err == nil:
		config, err = descriptors.Parse(files, descriptors.Options{Merge: s.settings.Merge})
	}
	if err != nil {
		if err.Error() != s.wrong {
			s.wrong = err.Error()
			s.metrics.Configured(false)
			for _, line := range lines(err) {
				s.logger.Error("the configuration makes no sense, and the former one stays", "error", line)
			}
		}
		return
	}
	s.wrong = ""
	s.tellWarnings(config.Warnings().Error())
	s.service.Use(config)
	s.logger.Info("the configuration was read anew", "domains", config.Domains())
}

// unhealthy returns why the service is not well, or "".
func (s *server) unhealthy() string {
	config := s.service.Config()
	switch {
	case s.ending.Load():
		return "the service is ending"
	case s.settings.NeedsStore && s.storeGone.Load():
		return "the store does not answer"
	case config == nil && s.settings.ServesEnvoy() && !s.settings.waits():
		return "there is no configuration"
	case s.settings.ServesEnvoy() && s.settings.NeedsDomain && (config == nil || config.Domains() == 0):
		return "no domain is configured"
	}
	return ""
}

// tellHealth tells those that watch by gRPC.
func (s *server) tellHealth() {
	answer := healthpb.HealthCheckResponse_SERVING
	if s.unhealthy() != "" {
		answer = healthpb.HealthCheckResponse_NOT_SERVING
	}
	names := []string{"", "ratelimit", pb.RateLimitService_ServiceDesc.ServiceName}
	if s.settings.assignsQuotas() {
		names = append(names, quotapb.RateLimitQuotaService_ServiceDesc.ServiceName)
	}
	for _, name := range names {
		s.health.SetServingStatus(name, answer)
	}
}

// askStore asks whether the store answers.
func (s *server) askStore(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	err := s.limiter.Ping(bounded)
	if ctx.Err() != nil {
		return
	}
	if gone := err != nil; s.storeGone.Swap(gone) != gone {
		if gone {
			s.logger.Error("the store does not answer", "error", err)
		} else {
			s.logger.Info("the store answers again")
		}
	}
	s.tellHealth()
}

// every calls a function again and again until the context ends.
func every(ctx context.Context, d time.Duration, do func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// serve listens until the context ends, and answers the requests that were begun.
func (s *server) serve(ctx context.Context, ready func(Addresses)) error {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.settings.ConnectionAge, MaxConnectionAgeGrace: s.settings.ConnectionGrace,
		}),
		grpc.MaxRecvMsgSize(mostMessage), grpc.MaxConcurrentStreams(mostStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: shortestPing, PermitWithoutStream: true}),
		grpc.InTapHandle(s.bound),
	}
	if s.settings.TLS.Cert != "" {
		config, err := serverTLS(s.settings.TLS, s.logger)
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	servers := grpc.NewServer(options...)
	pb.RegisterRateLimitServiceServer(servers, s.service)
	if s.settings.assignsQuotas() {
		quotapb.RegisterRateLimitQuotaServiceServer(servers, s.quotas)
	}
	healthpb.RegisterHealthServer(servers, s.health)
	reflection.Register(servers)
	web, debug := s.webServer(s.routes()), s.webServer(s.debugRoutes())

	inner, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 3)
	var all sync.WaitGroup
	at := Addresses{HTTP: listeners[0].Addr(), Metrics: s.metricsAt}
	all.Go(func() { failed <- web.Serve(listeners[0]) })
	if len(listeners) > 1 {
		at.GRPC, at.Debug = listeners[1].Addr(), listeners[2].Addr()
		all.Go(func() { failed <- servers.Serve(listeners[1]) })
		all.Go(func() { failed <- debug.Serve(listeners[2]) })
	}
	all.Go(func() { every(inner, s.settings.Every, func() { s.again(); s.tellHealth() }) })
	all.Go(func() { every(inner, lookEvery, func() { s.askStore(inner) }) })
	s.logger.Info("serving", at.attributes()...)
	ready(at)

	select {
	case <-ctx.Done():
		stop()
		err = s.leave(failed)
	case err = <-failed:
		stop()
	}
	s.end(context.WithoutCancel(ctx), servers, web, debug)
	all.Wait()
	return err
}

// bounded is a context that ends after a time. It needs no call to be freed: it ends with the stream of its request at the latest.
type bounded struct {
	context.Context //nolint:containedctx // it is one

	_ context.CancelFunc
}

// bound gives a request a time until which it has to be answered. Otherwise a client could leave requests half sent, and their bytes would stay in memory
// as long as its connection.
func (s *server) bound(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != pb.RateLimitService_ShouldRateLimit_FullMethodName {
		return ctx, nil // other streams may stay
	}
	longest := cmp.Or(s.settings.arrival, longestArrival)
	if end, ends := ctx.Deadline(); ends && time.Until(end) <= longest {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longest) //nolint:gosec // it is freed with its stream
	return bounded{ctx, cancel}, nil
}

// leave goes on answering for a while, so that clients see the bad health and ask elsewhere. It returns the error of a listener that fails meanwhile.
func (s *server) leave(failed <-chan error) error {
	s.ending.Store(true)
	s.health.Shutdown() // it stays bad, whatever is told meanwhile
	if s.settings.Leave <= 0 {
		return nil
	}
	s.logger.Info("ending: the health is bad, and requests are still answered", "for", s.settings.Leave)
	after := s.settings.after
	if after == nil {
		after = time.After
	}
	select {
	case <-after(s.settings.Leave):
		return nil
	case err := <-failed:
		return err
	}
}

// end closes the listeners, and answers the requests that were begun.
func (s *server) end(ctx context.Context, servers *grpc.Server, others ...*http.Server) {
	s.ending.Store(true)
	s.health.Shutdown()
	s.quotas.Close()
	s.logger.Info("ending: the requests that were begun are answered", "for", s.settings.Drain)
	ctx, cancel := context.WithTimeout(ctx, s.settings.Drain)
	defer cancel()
	abort := context.AfterFunc(ctx, servers.Stop)
	defer abort()
	var all sync.WaitGroup
	all.Go(servers.GracefulStop)
	for _, one := range others {
		all.Go(func() {
			if one.Shutdown(ctx) != nil {
				_ = one.Close()
			}
		})
	}
	all.Wait()
}

// listen opens the listeners for HTTP, and, for the service of Envoy, those for gRPC and debugging.
func (s *server) listen(ctx context.Context) (all []net.Listener, err error) {
	web := [2]string{"tcp", s.settings.HTTP}
	if !s.settings.ServesEnvoy() {
		return openAll(ctx, web)
	}
	network, address := "tcp", s.settings.GRPC
	if s.settings.Socket != "" {
		network, address = "unix", s.settings.Socket
		if err := removeSocket(address); err != nil {
			return nil, err
		}
	}
	return openAll(ctx, web, [2]string{network, address}, [2]string{"tcp", s.settings.Debug})
}

// openAll opens listeners, each by its network and its address: all of them, or none.
func openAll(ctx context.Context, places ...[2]string) (all []net.Listener, err error) {
	for _, one := range places {
		listener, err := (&net.ListenConfig{}).Listen(ctx, one[0], one[1])
		if err != nil {
			for _, open := range all {
				_ = open.Close()
			}
			return nil, err
		}
		all = append(all, listener)
	}
	return all, nil
}

// removeSocket removes the socket that a process has left which was killed. It does not remove another file.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil //nolint:nilerr // to listen tells what is wrong
	}
	return os.Remove(path)
}

// webServer returns a server of HTTP. While the service ends, each answer closes its connection, so that none is left on which a client sends a request
// just when the server closes it.
func (s *server) webServer(handler http.Handler) *http.Server {
	closing := func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	}
	return &http.Server{
		Handler: http.HandlerFunc(closing), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
		WriteTimeout: longestAnswer,
	}
}

// routes are those of the listener for HTTP.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	if s.settings.ServesEnvoy() {
		mux.Handle("/json", s.service)
	}
	if s.forward != nil {
		mux.Handle("/check", s.forward)
		mux.Handle("/check/nginx", s.forward.AuthRequest())
	}
	mux.HandleFunc("/healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		if reason := s.unhealthy(); reason != "" {
			http.Error(w, reason, http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "OK")
	})
	return mux
}

// debugRoutes are those of the listener for debugging.
func (s *server) debugRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if config := s.service.Config(); config != nil {
			_, _ = io.WriteString(w, config.Dump())
		}
	})
	index := "/rlconfig: print out the currently loaded configuration for debugging\n"
	if s.metrics != nil {
		mux.Handle("/metrics", s.metrics.Handler())
		index += "/metrics: print out the metrics for Prometheus\n"
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, index) })
	return mux
}
