// Package serving runs the rate limit service: its settings from the environment, the files that it reads anew, its listeners, TLS, health, and its
// end, at which the requests that were begun are answered.
package serving

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
)

// Settings are all that a service is told. FromEnvironment makes them.
type Settings struct {
	// Config is a file, or a directory whose files are read with those in the directories below it.
	Config string
	// XDS is a control plane that sends the limits. Without it and Config the service of Envoy is not served, and nothing listens for gRPC and debugging.
	XDS XDS
	// Policies are those by which Traefik, Caddy and nginx ask.
	Policies Policies
	// Every is how often the files are looked at.
	Every time.Duration
	// HiddenFiles says that files are read whose names begin with a dot. Merge puts files of one domain together.
	HiddenFiles, Merge bool
	// StartWithout starts the service without a configuration: if the files make no sense, or before the control plane has sent one.
	StartWithout bool
	// NeedsDomain says that the service is not healthy before it has a domain.
	NeedsDomain bool
	// NeedsStore says that the service is not healthy while the store does not answer.
	NeedsStore bool

	// GRPC, HTTP and Debug are addresses with ports. Socket is the path of a Unix socket that takes the place of GRPC.
	GRPC, HTTP, Debug, Socket string
	// ConnectionAge is how long a connection of gRPC is used, and ConnectionGrace how long its requests may take after that.
	ConnectionAge, ConnectionGrace time.Duration
	// Leave is how long the service goes on answering at the end, with a bad health. Drain is how long requests that were begun may take after that.
	Leave, Drain time.Duration
	after        func(time.Duration) <-chan time.Time // nil is time.After
	arrival      time.Duration                        // 0 is longestArrival
	TLS          TLS
	Store        Store
	Rules        rls.Options
	// QuotaLease is how long a quota lasts that is assigned to a proxy. The default is rlqs.DefaultLease.
	QuotaLease time.Duration
	// Metrics say what is counted, and where Prometheus reads it.
	Metrics Metrics
	// LogLevel and LogJSON change the log.
	LogLevel slog.Level
	LogJSON  bool
	// Ignored are the names of variables that are set and have no effect.
	Ignored []string
}

// Policies are those of a file by which requests are decided that proxies describe.
type Policies struct {
	// File is their file. Without it no proxy is answered.
	File string
	// Trusted are the addresses and prefixes of proxies that may ask.
	Trusted []string
	// Replicas is how many processes share the limits while the store does not answer.
	Replicas int
}

// TLS is the encryption of gRPC.
type TLS struct {
	// Cert and Key are files in PEM. Without them there is no encryption.
	Cert, Key string
	// ClientCA is a file with authorities. Clients have to have a certificate of one of them.
	ClientCA string
	// ClientName is a name that the certificate of a client has to have.
	ClientName string
}

// ignored are the variables of the reference that have no effect. Those that end with a star begin so.
var ignored = []string{
	"BACKEND_TYPE", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "EXPIRATION_JITTER_MAX_SECONDS", "EXTRA_TAGS", "MEMCACHE_*", "OTEL_EXPORTER_*",
	"PROMETHEUS_MAPPER_YAML", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "REDIS_CLUSTER_PIPELINE_PARALLELISM", "REDIS_PERSECOND*", "REDIS_PIPELINE_*",
	"REDIS_POOL_*", "REDIS_STARTUP_*", "RUNTIME_WATCH_ROOT", "STATSD_*", "STATS_FLUSH_INTERVAL", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "TRACING_*",
	"USE_DOG_STATSD*", "USE_STATSD", "XDS_CLIENT_*",
}

// assignsQuotas reports whether quotas are assigned. What is assigned is charged to the limits of the files, and not to the counters of the reference: a
// client could use both, and pass twice as often.
func (s *Settings) assignsQuotas() bool { return !s.Rules.AsReference }

// environment reads variables, and collects what is wrong with them.
type environment struct {
	variables map[string]string
	errors    []error
}

// text returns a variable, or another text if it is not set.
func (e *environment) text(name, otherwise string) string {
	if text := e.variables[name]; text != "" {
		return text
	}
	return otherwise
}

// read returns a variable that is parsed, or another value if it is not set.
func read[T any](e *environment, name string, otherwise T, parse func(string) (T, error)) T {
	text := e.variables[name]
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		e.errors = append(e.errors, fmt.Errorf("%s=%q makes no sense", name, text))
		return otherwise
	}
	return value
}

func (e *environment) boolean(name string, otherwise bool) bool {
	return read(e, name, otherwise, strconv.ParseBool)
}

func (e *environment) number(name string, otherwise int) int {
	return read(e, name, otherwise, func(text string) (int, error) {
		n, err := strconv.ParseUint(text, 10, 31)
		return int(n), err
	})
}

func (e *environment) duration(name string, otherwise time.Duration) time.Duration {
	return read(e, name, otherwise, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = errors.New("not positive")
		}
		return d, err
	})
}

func (e *environment) address(host, port, otherwise string) string {
	return net.JoinHostPort(e.text(host, "0.0.0.0"), e.text(port, otherwise))
}

// FromEnvironment returns the settings that the environment makes, in the form of os.Environ. The variables mean what they mean to the reference.
func FromEnvironment(environ []string) (Settings, error) {
	e := environment{variables: make(map[string]string)}
	var s Settings
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		e.variables[name] = value
		if value != "" && slices.ContainsFunc(ignored, func(pattern string) bool {
			prefix, many := strings.CutSuffix(pattern, "*")
			return name == pattern || many && strings.HasPrefix(name, prefix)
		}) {
			s.Ignored = append(s.Ignored, name)
		}
	}
	slices.Sort(s.Ignored)
	if kind := e.text("BACKEND_TYPE", "redis"); kind != "redis" {
		e.errors = append(e.errors, fmt.Errorf("BACKEND_TYPE=%s is not served: the store is Redis or Valkey", kind))
	}
	s.Config = filepath.Join(e.text("RUNTIME_ROOT", "/srv/runtime_data/current"), e.text("RUNTIME_SUBDIRECTORY", ""), e.text("RUNTIME_APPDIRECTORY", "config"))
	e.readXDS(&s)
	s.HiddenFiles = !e.boolean("RUNTIME_IGNOREDOTFILES", false)
	s.Every = time.Second
	s.Merge = e.boolean("MERGE_DOMAIN_CONFIG", false)
	s.StartWithout = e.boolean("FORCE_START_WITHOUT_INITIAL_CONFIG", false)
	s.NeedsDomain = e.boolean("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", false)
	s.NeedsStore = e.boolean("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", true)

	s.GRPC = e.address("GRPC_HOST", "GRPC_PORT", "8081")
	s.HTTP = e.address("HOST", "PORT", "8080")
	s.Debug = e.address("DEBUG_HOST", "DEBUG_PORT", "6070")
	s.Socket = e.text("GRPC_UDS", "")
	s.ConnectionAge = e.duration("GRPC_MAX_CONNECTION_AGE", 24*time.Hour)
	s.ConnectionGrace = e.duration("GRPC_MAX_CONNECTION_AGE_GRACE", time.Hour)
	s.Leave, s.Drain = 3*time.Second, 10*time.Second
	if e.boolean("GRPC_SERVER_USE_TLS", false) {
		s.TLS = TLS{
			Cert: e.text("GRPC_SERVER_TLS_CERT", ""), Key: e.text("GRPC_SERVER_TLS_KEY", ""),
			// Envoy Gateway sets the second one, which the reference does not read.
			ClientCA:   e.text("GRPC_CLIENT_TLS_CACERT", e.text("GRPC_SERVER_TLS_CA_CERT", "")),
			ClientName: e.text("GRPC_CLIENT_TLS_SAN", ""),
		}
		if s.TLS.Cert == "" || s.TLS.Key == "" {
			e.errors = append(e.errors, errors.New("GRPC_SERVER_USE_TLS needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY"))
		}
	}
	s.Store = storeOf(&e)
	if s.Store.Kind != "SINGLE" && s.Store.Socket == "unix" { // as in the reference
		s.Ignored = append(s.Ignored, "REDIS_SOCKET_TYPE")
		slices.Sort(s.Ignored)
	}
	s.Metrics = metricsOf(&e)
	s.Rules = rls.Options{
		Shadow: e.boolean("SHADOW_MODE", false), Quota: e.boolean("QUOTA_MODE", false), Metadata: e.boolean("RESPONSE_DYNAMIC_METADATA", false),
		OnError: rls.Fail, Timeout: e.duration("REDIS_TIMEOUT", 20*time.Millisecond),
	}
	if e.boolean("LIMIT_RESPONSE_HEADERS_ENABLED", false) {
		s.Rules.Headers = [3]string{
			e.text("LIMIT_LIMIT_HEADER", "RateLimit-Limit"), e.text("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
			e.text("LIMIT_RESET_HEADER", "RateLimit-Reset"),
		}
	}
	s.LogJSON = strings.EqualFold(e.text("LOG_FORMAT", "text"), "json")
	s.LogLevel = read(&e, "LOG_LEVEL", slog.LevelInfo, level)
	return s, errors.Join(e.errors...)
}

// level returns the level of the log by the reference's names.
func level(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error", "fatal", "panic":
		return slog.LevelError, nil
	}
	return 0, errors.New("no level")
}
