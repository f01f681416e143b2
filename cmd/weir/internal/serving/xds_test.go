package serving

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/cmd/weir/internal/xds/xdstest"
)

// by takes the limits from a control plane.
func by(server *xdstest.Server) func(*Settings) {
	return func(s *Settings) {
		s.UseXDS(server.Address)
		s.XDS.Node, s.XDS.Wait = xdstest.Node, 5*time.Millisecond
	}
}

// left asks about the key "two", and returns how many units are left.
func (r *running) left(t *testing.T) uint32 {
	t.Helper()
	_, left, err := ask(t, r.connect(t), "two")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestLimitsByXDS: other limits count the units that were used, nonsense changes nothing, and limits stay when the control plane is gone.
func TestLimitsByXDS(t *testing.T) {
	server := xdstest.New(t)
	server.Start()
	server.Set("1", xdstest.Limit("d", "two", 2))
	r := start(t, by(server))
	if got := r.left(t); got != 1 {
		t.Errorf("%d left", got)
	}
	if _, body := get(t, "http://"+r.Debug.String()+"/rlconfig"); !strings.HasPrefix(body, "d.two: unit=DAY requests_per_unit=2") {
		t.Errorf("/rlconfig: %q", body)
	}

	wrong := xdstest.Limit("d", "two", 2)
	wrong.Descriptors[0].RateLimit.Unit = config.RateLimitUnit_UNKNOWN
	server.Set("2", wrong)
	const reason = `d: descriptors[0].rate_limit: the unit "" is none of second, minute, hour, day, week, month and year`
	eventually(t, "it is refused", func() bool { return len(server.Refused()) > 0 && r.log.has("the former ones stay") })
	if got := server.Refused()[0]; got != reason {
		t.Errorf("it is refused for %q", got)
	}
	if got := r.left(t); got != 0 {
		t.Errorf("%d left by the former limit", got)
	}
	for _, one := range scrape(t, r.Debug, "/metrics")["ratelimit_serve_configurations_total"].GetMetric() {
		if got := one.GetCounter().GetValue(); got != 1 {
			t.Errorf("%v of %v, want one used and one refused", got, one.GetLabel())
		}
	}

	server.Set("3", xdstest.Limit("d", "two", 20))
	eventually(t, "the new limit counts", func() bool { return r.log.has("version=3") && r.left(t) > 0 })
	before := r.left(t)
	server.Stop()
	eventually(t, "the log tells that it is gone", func() bool { return r.log.has("the control plane does not answer") })
	if got := r.left(t); got != before-1 {
		t.Errorf("%d left without the control plane, want %d", got, before-1)
	}
	server.Start()
	server.Set("1", xdstest.Limit("d", "two", 100))
	eventually(t, "the limit of the new control plane counts", func() bool { return r.left(t) > 60 })
	if code, body := get(t, "http://"+r.HTTP.String()+"/healthcheck"); code != http.StatusOK {
		t.Errorf("/healthcheck: %d %s", code, body)
	}
}

// TestTheFirstLimitsAreAwaited: nothing listens before, unless the service may start without.
func TestTheFirstLimitsAreAwaited(t *testing.T) {
	server := xdstest.New(t)
	log := &journal{}
	run := func(ctx context.Context) chan error {
		settings, err := FromEnvironment(nil)
		if err != nil {
			t.Fatal(err)
		}
		by(server)(&settings)
		settings.GRPC, settings.HTTP, settings.Debug, settings.Store.URL = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "memory:"
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, settings, slog.New(slog.NewTextHandler(log, nil)), func(Addresses) { t.Error("it listens") })
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := run(ctx)
	eventually(t, "the log tells it", func() bool { return log.has("waiting for the first configuration") && log.has("does not answer") })
	server.Start()
	server.Set("1", &config.RateLimitConfig{Name: "nameless"})
	eventually(t, "nonsense is refused", func() bool { return len(server.Refused()) > 0 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it has ended with %v", err)
	}
	server.Set("2", xdstest.Limit("d", "two", 2))
	if got := start(t, by(server)).left(t); got != 1 {
		t.Errorf("%d left", got)
	}
}

// TestStartWithoutLimits: Envoy Gateway starts the service before there is a limit, and kills one that is not well.
func TestStartWithoutLimits(t *testing.T) {
	server := xdstest.New(t)
	r := start(t, func(s *Settings) { by(server)(s); s.StartWithout = true })
	needs := start(t, func(s *Settings) { by(server)(s); s.StartWithout, s.NeedsDomain = true, true })
	if code, body := get(t, "http://"+r.HTTP.String()+"/healthcheck"); code != http.StatusOK {
		t.Errorf("/healthcheck: %d %s", code, body)
	}
	if code, body := get(t, "http://"+needs.HTTP.String()+"/healthcheck"); code != http.StatusInternalServerError || body != "no domain is configured\n" {
		t.Errorf("/healthcheck of one that needs a domain: %d %q", code, body)
	}
	if _, _, err := ask(t, r.connect(t), "two"); status.Code(err) != codes.Unknown {
		t.Errorf("%v", err)
	}
	server.Start()
	server.Set("1", xdstest.Limit("d", "two", 2))
	eventually(t, "the limits count", func() bool {
		code, _, err := ask(t, r.connect(t), "two")
		return err == nil && code == pb.RateLimitResponse_OVER_LIMIT
	})
	eventually(t, "the other one is well", func() bool {
		code, _ := get(t, "http://"+needs.HTTP.String()+"/healthcheck")
		return code == http.StatusOK
	})
}

// TestXDSWithTLS: control plane and service show each other their certificates, and new ones are taken for the next connection.
func TestXDSWithTLS(t *testing.T) {
	dir := t.TempDir()
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	certificate, err := tls.LoadX509KeyPair(ours.sign(t, dir, "plane", "plane.test"))
	if err != nil {
		t.Fatal(err)
	}
	roots, err := readAuthorities(ours.file)
	if err != nil {
		t.Fatal(err)
	}
	server := xdstest.New(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})))
	server.Start()
	server.Set("1", xdstest.Limit("d", "two", 100))
	secured := func(change func(*XDS)) func(*Settings) {
		return func(s *Settings) {
			by(server)(s)
			s.StartWithout = true
			s.XDS.TLS, s.XDS.CA, s.XDS.ServerName = true, ours.file, "plane.test"
			s.XDS.Cert, s.XDS.Key = filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
			change(&s.XDS)
		}
	}
	others.sign(t, dir, "client", "client.test")
	r := start(t, secured(func(*XDS) {}))
	eventually(t, "a certificate of another authority is refused", func() bool { return r.log.has("does not answer") })
	if r.log.has("was received") {
		t.Error("limits are received with a certificate of another authority")
	}
	ours.sign(t, dir, "client", "client.test")
	eventually(t, "limits are received with the new certificate", func() bool { return r.log.has("was received") })
	for what, change := range map[string]func(*XDS){
		"without a certificate": func(x *XDS) { x.Cert, x.Key = "", "" },
		"an unknown authority":  func(x *XDS) { x.CA = others.file },
		"another name":          func(x *XDS) { x.ServerName = "other.test" },
		"without TLS":           func(x *XDS) { x.TLS = false },
	} {
		r := start(t, secured(change))
		eventually(t, what, func() bool { return r.log.has("does not answer") })
		if r.log.has("was received") {
			t.Errorf("%s: limits are received", what)
		}
	}
	settings, _ := FromEnvironment(nil)
	secured(func(x *XDS) { x.CA = filepath.Join(dir, "missing") })(&settings)
	settings.Store.URL = "memory:"
	if err := Run(t.Context(), settings, slog.New(slog.DiscardHandler), func(Addresses) {}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v", err)
	}
}

// TestXDSFromEnvironment reads the variables that Envoy Gateway sets.
func TestXDSFromEnvironment(t *testing.T) {
	variables := []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt", "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "RUNTIME_ROOT=/data",
		"CONFIG_GRPC_XDS_NODE_METADATA=a=1,b=x=y", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:Bearer t", "XDS_CLIENT_BACKOFF_JITTER=true",
	}
	s, err := FromEnvironment(variables)
	if err != nil {
		t.Fatal(err)
	}
	want := XDS{
		Server: "envoy-gateway:18001", Node: "envoy-ratelimit", TLS: true, Cert: "/certs/tls.crt", Key: "/certs/tls.key", CA: "/certs/ca.crt",
		Metadata: map[string]string{"a": "1", "b": "x=y"}, Headers: map[string]string{"authorization": "Bearer t"}, variables: s.XDS.variables,
	}
	if !reflect.DeepEqual(s.XDS, want) || s.Config != "" || !s.StartWithout || !s.ServesEnvoy() {
		t.Errorf("%+v, want %+v", s.XDS, want)
	}
	if got := s.ignored(); !reflect.DeepEqual(got, []string{"XDS_CLIENT_BACKOFF_JITTER"}) {
		t.Errorf("%v have no effect", got)
	}
	files, err := FromEnvironment(variables[1:])
	if got := files.ignored(); err != nil || len(got) != 9 || files.Config == "" || files.XDS.Server != "" {
		t.Errorf("%+v, %v: %v have no effect", files, err, got)
	}
	if s, err := FromEnvironment(variables[:1]); err != nil || s.XDS.Server != "localhost:18000" || s.XDS.Node != "default" {
		t.Errorf("%+v, %v", s.XDS, err)
	}
	for _, wrong := range []string{
		"CONFIG_TYPE=ETCD", "CONFIG_GRPC_XDS_NODE_METADATA=a", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c", "CONFIG_GRPC_XDS_SERVER_USE_TLS=perhaps",
	} {
		name, _, _ := strings.Cut(wrong, "=")
		if _, err := FromEnvironment([]string{wrong}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
