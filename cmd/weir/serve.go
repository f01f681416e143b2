package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/forward"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rlqs"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
	"github.com/weir-go/ratelimit/cmd/weir/internal/serving"
)

const serveHelp = `Serves envoy.service.ratelimit.v3, the rate limit service of Envoy, by the YAML files of github.com/envoyproxy/ratelimit. The files are read
again when they change. Files that make no sense never replace others, and the log says file, line and column. All descriptors of a request are one
call to Redis: all of them are charged, or none.

On the same port it serves envoy.service.rate_limit_quota.v3, which assigns parts of the limits to Envoys: they decide by themselves then.
With -as-reference it does not, since both would count apart.

The environment variables of that service mean the same, such as REDIS_URL, RUNTIME_ROOT and LIMIT_RESPONSE_HEADERS_ENABLED. Those that are set and
have no effect are named at the start. Flags go before variables.

   weir serve -config limits/ -redis redis://localhost:6379

With -xds the limits come from a control plane, such as Envoy Gateway, and change when it sends others. CONFIG_TYPE=GRPC_XDS_SOTW and the variables
CONFIG_GRPC_XDS_... say the same. It then waits for the first limits, unless FORCE_START_WITHOUT_INITIAL_CONFIG is true. Under the name "ratelimit"
the program is weir serve, so that it can stand where that service stood.

   weir serve -xds localhost:18000 -redis redis://localhost:6379

It listens for gRPC on port 8081, for HTTP (/json and /healthcheck) on 8080, and on 6070 for /rlconfig and /metrics. At SIGTERM its health is bad,
and it goes on answering for 3 seconds (-leave), so that clients ask elsewhere. Then it ends when the requests that were begun are answered. A second
SIGTERM ends it at once.

With -policies it answers Traefik, Caddy and nginx as well, by a file of policies: at /check, and nginx at /check/nginx. It believes the proxies that
-trusted names, and answers nobody else there. Without -config, -xds and RUNTIME_ROOT it then listens for HTTP alone.

   weir serve -policies limits.yaml -trusted 10.0.0.0/8 -redis redis://localhost:6379

Exit codes:
   0  it was ended
   1  it could not listen, or could not go on
   2  the command line or the environment makes no sense
   5  the files make no sense`

func serveCommand(stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "serves Envoy's rate limit service from files or xDS, and answers Traefik, Caddy and nginx",
		UsageText: "weir serve [options]", Description: serveHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "the `FILE` of limits, or a directory of such files; by default from RUNTIME_ROOT"},
			&cli.StringFlag{Name: "xds", Usage: "the `ADDRESS` of a control plane that sends the limits by xDS, in place of files"},
			&cli.StringFlag{Name: "policies", Usage: "a `FILE` of policies, by which Traefik, Caddy and nginx are answered"},
			&cli.StringSliceFlag{Name: "trusted", Usage: "the `ADDRESS` or prefix of a proxy that may ask by the policies; repeatable"},
			&cli.IntFlag{Name: "replicas", Value: 1, Usage: "how many processes share the limits of policies that say \"onError: fallback\""},
			&cli.StringFlag{Name: "redis", Usage: "the `URL` of the store, as core.Open takes it; by default REDIS_URL, or else " + defaultStore},
			&cli.StringFlag{Name: "prefix", Usage: "the beginning of every key in Redis; by default CACHE_KEY_PREFIX, or else \"ratelimit\""},
			&cli.DurationFlag{Name: "timeout", Usage: "how long a request waits for Redis at most: a `TIME`; by default REDIS_TIMEOUT, or else 20ms"},
			&cli.StringFlag{
				Name: "on-error", Value: string(rls.Fail), Usage: "the `ANSWER` while Redis cannot answer: error (the proxy decides), open or closed",
			},
			&cli.BoolFlag{
				Name:  "as-reference",
				Usage: "count as github.com/envoyproxy/ratelimit does: charge each descriptor, over its limit or not; no quotas are assigned",
			},
			&cli.FloatFlag{Name: "over", Usage: "decide hot keys without Redis, and admit this `PART` of a limit too much at most, such as 0.01"},
			&cli.DurationFlag{
				Name: "quota-lease", Value: rlqs.DefaultLease,
				Usage: "how long a quota lasts that Envoy's quota filter is assigned: a `TIME` of whole seconds, at least 2s",
			},
			&cli.StringFlag{Name: "grpc", Usage: "the `ADDRESS` for gRPC; by default GRPC_HOST and GRPC_PORT, or else 0.0.0.0:8081"},
			&cli.StringFlag{Name: "http", Usage: "the `ADDRESS` for HTTP; by default HOST and PORT, or else 0.0.0.0:8080"},
			&cli.StringFlag{Name: "debug", Usage: "the `ADDRESS` for debugging; by default DEBUG_HOST and DEBUG_PORT, or else 0.0.0.0:6070"},
			&cli.StringFlag{Name: "metrics", Usage: "the `ADDRESS` for Prometheus (/metrics); by default PROMETHEUS_ADDR if USE_PROMETHEUS=true"},
			&cli.DurationFlag{Name: "leave", Value: 3 * time.Second, Usage: "at the end, answer for this `TIME` with a bad health, so that clients leave"},
			&cli.DurationFlag{Name: "drain", Value: 10 * time.Second, Usage: "after that, answer the requests that were begun for this `TIME` at most"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usage("serve takes no arguments: name the files by -config")
			}
			settings, err := serveSettings(c, os.Environ())
			if err != nil {
				return usage("%w", err)
			}
			options := &slog.HandlerOptions{Level: settings.LogLevel}
			logger := slog.New(slog.NewTextHandler(stderr, options))
			if settings.LogJSON {
				logger = slog.New(slog.NewJSONHandler(stderr, options))
			}
			unused := spare(os.LookupEnv)
			err = serving.Run(ctx, settings, logger, func(serving.Addresses) {})
			runtime.KeepAlive(unused)
			switch {
			case errors.Is(err, serving.ErrConfig):
				return exitError{err, exitInvalid}
			case errors.Is(err, serving.ErrStore):
				return usage("%w", err)
			}
			return err
		},
	}
}

// spareMemory is how much memory spare takes.
const spareMemory = 32 << 20

// spare takes memory and never touches it, so that it costs nothing: the system gives memory when it is touched. The collector of garbage counts it as used,
// and comes when as much again was allocated. Otherwise it would come after each four megabytes, since a service has little memory in use, and take a
// third of the time. Whoever sets the collector by GOGC or GOMEMLIMIT is left alone.
func spare(lookup func(name string) (value string, set bool)) []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, set := lookup(name); set {
			return nil
		}
	}
	return make([]byte, spareMemory)
}

// serveSettings returns the settings of the environment, changed by the flags.
func serveSettings(c *cli.Command, environ []string) (serving.Settings, error) {
	s, err := serving.FromEnvironment(environ)
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*string{
		"redis": &s.Store.URL, "prefix": &s.Store.Prefix, "grpc": &s.GRPC, "http": &s.HTTP, "debug": &s.Debug,
	} {
		if c.IsSet(name) {
			*to = c.String(name)
		}
	}
	s.Policies = serving.Policies{File: c.String("policies"), Trusted: c.StringSlice("trusted"), Replicas: c.Int("replicas")}
	if err := checkPolicies(c, s.Policies); err != nil {
		return s, err
	}
	if err := chooseLimits(c, &s); err != nil {
		return s, err
	}
	if s.Policies.File != "" && !c.IsSet("config") && !slices.ContainsFunc(environ, namesRoot) {
		s.Config = ""
	}
	if !s.ServesEnvoy() && (c.IsSet("on-error") || c.IsSet("as-reference")) {
		return s, errors.New("-on-error and -as-reference are for the limits of -config and -xds: policies have an onError each, in their file")
	}
	if c.IsSet("metrics") {
		s.Metrics.Address, s.Metrics.Off = c.String("metrics"), false
	}
	if c.IsSet("grpc") {
		s.Socket = ""
	}
	if c.IsSet("redis") {
		s.Store.Kind, s.Store.Socket, s.Store.Auth, s.Store.TLS = "SINGLE", "", "", false
	}
	if c.IsSet("timeout") {
		s.Rules.Timeout = c.Duration("timeout")
	}
	s.Leave, s.Drain = c.Duration("leave"), c.Duration("drain")
	s.Rules.AsReference, s.Rules.OnError = c.Bool("as-reference"), rls.OnError(c.String("on-error"))
	switch s.Rules.OnError {
	case rls.Fail, rls.Open, rls.Closed:
	default:
		return s, errors.New("-on-error is error, open or closed")
	}
	s.Store.Over = c.Float("over")
	if s.Store.Over < 0 || s.Store.Over > 1 || s.Store.Over > 0 && s.Rules.AsReference {
		return s, errors.New("-over is from 0 to 1, and not for -as-reference, which counts each request")
	}
	if s.Rules.Timeout <= 0 || s.Drain <= 0 {
		return s, errors.New("-timeout and -drain have to be positive")
	}
	if s.QuotaLease = c.Duration("quota-lease"); s.QuotaLease < rlqs.ShortestLease || s.QuotaLease > time.Minute || s.QuotaLease%time.Second != 0 {
		return s, errors.New("-quota-lease is a number of whole seconds from 2s to 1m")
	}
	if s.Rules.AsReference && c.IsSet("quota-lease") {
		return s, errors.New("-quota-lease is not for -as-reference: quotas are charged to other counters than requests are then, and not assigned")
	}
	if s.Leave < 0 {
		return s, errors.New("-leave is at least 0")
	}
	return s, nil
}

// chooseLimits takes the limits of Envoy from files or from a control plane, if a flag says so.
func chooseLimits(c *cli.Command, s *serving.Settings) error {
	config, server := c.String("config"), c.String("xds")
	switch {
	case c.IsSet("config") && c.IsSet("xds"):
		return errors.New("-config and -xds exclude each other: the limits come from files, or from a control plane")
	case c.IsSet("config") && config == "":
		return errors.New("-config is empty: name a file of limits, or a directory of such files")
	case c.IsSet("xds") && server == "":
		return errors.New("-xds is empty: name the address of a control plane, such as localhost:18000")
	case c.IsSet("config"):
		s.UseFiles(config)
	case c.IsSet("xds"):
		s.UseXDS(server)
	}
	return nil
}

// checkPolicies returns an error if the flags about policies do not fit together.
func checkPolicies(c *cli.Command, of serving.Policies) error {
	switch {
	case c.IsSet("policies") && of.File == "":
		return errors.New("-policies is empty: name a file of policies")
	case of.File == "" && len(of.Trusted) > 0:
		return errors.New("-trusted is for proxies that ask by a file of policies: name the file by -policies")
	case of.File == "" && c.IsSet("replicas"):
		return errors.New("-replicas is for a file of policies: name the file by -policies")
	case of.Replicas < 1:
		return fmt.Errorf("-replicas is at least 1, and not %d: how many processes share the limits", of.Replicas)
	case of.File != "" && len(of.Trusted) == 0:
		return errors.New("-policies needs the addresses of the proxies that may ask: name them by -trusted, such as -trusted 10.0.0.0/8")
	}
	if _, err := forward.ParseProxies(of.Trusted); err != nil {
		return fmt.Errorf("-trusted: %w", err)
	}
	return nil
}

// namesRoot reports whether a variable of the environment is RUNTIME_ROOT, and not empty: an empty one counts as none, as all others do.
func namesRoot(variable string) bool {
	root, is := strings.CutPrefix(variable, "RUNTIME_ROOT=")
	return is && root != ""
}
