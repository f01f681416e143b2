package serving

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// certificates are those of the server. They are read anew when their files have changed; while these make no sense, the former ones serve.
type certificates struct {
	files  TLS
	logger *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	stamp  string // of the files that were read last
}

// serverTLS returns the settings of a server whose certificates are read anew.
func serverTLS(files TLS, logger *slog.Logger) (*tls.Config, error) {
	c := &certificates{files: files, logger: logger}
	config, err := c.read()
	if err != nil {
		return nil, err
	}
	c.config, c.stamp = config, c.look()
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current(), nil
		},
	}, nil
}

// look returns a text that changes when a file does.
func (c *certificates) look() string {
	var b strings.Builder
	for _, name := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			_, _ = fmt.Fprintln(&b, info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

// current returns the settings for a new connection.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamp := c.look(); stamp != c.stamp {
		c.stamp = stamp
		config, err := c.read()
		if err != nil {
			c.logger.Error("the certificates make no sense, and the former ones serve", "error", err)
			return c.config
		}
		c.config = config
		c.logger.Info("the certificates were read anew", "file", c.files.Cert)
	}
	return c.config
}

// read reads the files.
func (c *certificates) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{certificate}}
	if c.files.ClientCA == "" {
		return config, nil
	}
	if config.ClientCAs, err = readAuthorities(c.files.ClientCA); err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if name := c.files.ClientName; name != "" {
		config.VerifyConnection = func(state tls.ConnectionState) error { return called(state.PeerCertificates[0], name) }
	}
	return config, nil
}

// called returns an error unless a certificate has a name: of a host, an address, or a URI.
func called(certificate *x509.Certificate, name string) error {
	for _, uri := range certificate.URIs {
		if uri.String() == name {
			return nil
		}
	}
	if slices.Contains(certificate.EmailAddresses, name) {
		return nil
	}
	return certificate.VerifyHostname(name)
}
