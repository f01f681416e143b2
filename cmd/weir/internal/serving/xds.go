package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/xds"
)

// XDS is a control plane that sends the limits, in place of files.
type XDS struct {
	// Server is its address. Without it there is none.
	Server string
	// Node is the name of this service, by which the server chooses the limits. Metadata says more about it.
	Node     string
	Metadata map[string]string
	// Headers are sent with each connection.
	Headers map[string]string
	// TLS encrypts the connections.
	TLS bool
	// Cert and Key are files in PEM with the certificate of this service. Without them it has none.
	Cert, Key string
	// CA is a file with the authorities of the server. The default is the file of the system.
	CA string
	// ServerName is the name that the certificate of the server has to have. The default is the host of Server.
	ServerName string
	// Wait is how long the service waits before it connects anew. The default is a second.
	Wait time.Duration

	variables []string // the variables that are set, and have no effect without Server
}

// xdsVariables are the variables of the reference that have an effect.
var xdsVariables = []string{
	"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_NODE_ID",
	"CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "CONFIG_GRPC_XDS_SERVER_TLS_SAN", "CONFIG_GRPC_XDS_SERVER_URL",
	"CONFIG_GRPC_XDS_SERVER_USE_TLS",
}

// readXDS reads the variables about a control plane. There is one if CONFIG_TYPE says so, or if UseXDS is called.
func (e *environment) readXDS(s *Settings) {
	s.XDS = XDS{
		Node:     e.text("CONFIG_GRPC_XDS_NODE_ID", "default"),
		Metadata: read(e, "CONFIG_GRPC_XDS_NODE_METADATA", nil, pairsBy("=")),
		Headers:  read(e, "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", nil, pairsBy(":")),
		TLS:      e.boolean("CONFIG_GRPC_XDS_SERVER_USE_TLS", false),
		Cert:     e.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", ""), Key: e.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", ""),
		CA:         e.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ""),
		ServerName: e.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN", ""),
	}
	s.XDS.variables = slices.DeleteFunc(slices.Clone(xdsVariables), func(name string) bool { return e.text(name, "") == "" })
	if (s.XDS.Cert == "") != (s.XDS.Key == "") {
		e.errors = append(e.errors, errors.New("CONFIG_GRPC_XDS_CLIENT_TLS_CERT and CONFIG_GRPC_XDS_CLIENT_TLS_KEY need each other"))
	}
	switch kind := e.text("CONFIG_TYPE", "FILE"); kind {
	case "FILE":
	case "GRPC_XDS_SOTW":
		s.UseXDS(e.text("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"))
	default:
		e.errors = append(e.errors, fmt.Errorf("CONFIG_TYPE=%s is not served: the configuration comes from files (FILE) or by xDS (GRPC_XDS_SOTW)", kind))
	}
}

// pairsBy returns a function that reads pairs, which commas divide, and a sign divides the two of a pair.
func pairsBy(sign string) func(text string) (map[string]string, error) {
	return func(text string) (map[string]string, error) {
		pairs := make(map[string]string)
		for one := range strings.SplitSeq(text, ",") {
			key, value, found := strings.Cut(one, sign)
			if !found || key == "" {
				return nil, errors.New("no pair")
			}
			pairs[key] = value
		}
		return pairs, nil
	}
}

// UseXDS takes the configuration from a control plane, and not from files.
func (s *Settings) UseXDS(server string) { s.XDS.Server, s.Config = server, "" }

// UseFiles takes the configuration from files, and not from a control plane.
func (s *Settings) UseFiles(config string) { s.XDS.Server, s.Config = "", config }

// ServesEnvoy reports whether the service of Envoy is served: there is a configuration for it.
func (s *Settings) ServesEnvoy() bool { return s.Config != "" || s.XDS.Server != "" }

// waits reports whether the service is well before the control plane has sent a configuration. A control plane that has no limits may send none, and would
// see the service killed again and again.
func (s *Settings) waits() bool { return s.XDS.Server != "" && s.StartWithout }

// ignored returns the variables that are set and have no effect.
func (s *Settings) ignored() []string {
	if s.XDS.Server != "" {
		return s.Ignored
	}
	all := slices.Concat(s.Ignored, s.XDS.variables)
	slices.Sort(all)
	return all
}

// config returns the settings of TLS for a new connection. The files are read each time, because they may have changed.
func (x *XDS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: x.ServerName}
	if x.CA != "" {
		authorities, err := readAuthorities(x.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = authorities
	}
	if x.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(x.Cert, x.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// receive takes the configuration from the control plane, if there is one, until the context ends or stop is called. It returns when the first one was
// used, or at once if the service may start without.
func (s *server) receive(ctx context.Context) (stop func(), err error) {
	from := &s.settings.XDS
	if from.Server == "" {
		return func() {}, nil
	}
	settings := xds.Settings{
		Server: from.Server, Node: from.Node, Metadata: from.Metadata, Headers: from.Headers, Wait: from.Wait, Logger: s.logger,
		Refused: func() { s.metrics.Configured(false) },
	}
	if from.TLS {
		if _, err := from.config(); err != nil {
			return nil, fmt.Errorf("the certificates for the control plane: %w", err)
		}
		settings.TLS = from.config
	}
	first := make(chan struct{})
	use := func(version string, resources []*config.RateLimitConfig) error {
		if err := s.useResources(version, resources); err != nil {
			return err
		}
		select {
		case <-first:
		default:
			close(first)
		}
		return nil
	}
	inner, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { xds.Run(inner, settings, use) })
	if !s.settings.StartWithout {
		s.logger.Info("waiting for the first configuration", "server", from.Server, "node", from.Node)
		select {
		case <-first:
		case <-ctx.Done():
		}
	}
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// useResources answers requests by the resources from now on, if they make sense.
func (s *server) useResources(version string, resources []*config.RateLimitConfig) error {
	config, err := descriptors.FromResources(resources, descriptors.Options{Merge: s.settings.Merge})
	if err != nil {
		return err
	}
	s.tellWarnings(config.Warnings().Error())
	s.service.Use(config)
	s.logger.Info("the configuration was received", "version", version, "domains", config.Domains())
	return nil
}
