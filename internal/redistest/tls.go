package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TLSServer is a server that also speaks TLS, on the port above its plain one. Its
// certificate is for 127.0.0.1, and issued by an authority that no other program knows.
type TLSServer struct {
	*Server

	secured   string
	authority string
}

// StartTLS starts a server that also speaks TLS. Otherwise it does as [Start] does.
// The server program must have been built with TLS, as those of the distributions are.
func StartTLS(tb testing.TB, args ...string) *TLSServer {
	tb.Helper()
	certificates := tb.TempDir()
	if err := issue(certificates); err != nil {
		tb.Fatal(err)
	}
	plain := alone(args)
	server, err := start(plan{
		prepare: func(directory string, port int) ([]string, error) {
			arguments, err := plain(directory, port)
			return append(arguments,
				"--tls-port", strconv.Itoa(port+1), "--tls-auth-clients", "no",
				"--tls-cert-file", filepath.Join(certificates, "server.pem"),
				"--tls-key-file", filepath.Join(certificates, "server.key"),
				"--tls-ca-cert-file", filepath.Join(certificates, "authority.pem"),
			), err
		},
		offsets: []int{1},
	})
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { server.end(tb) })
	return &TLSServer{server, addressOf(server.process.port + 1), filepath.Join(certificates, "authority.pem")}
}

// TLSAddr returns the address on which the server speaks TLS.
func (s *TLSServer) TLSAddr() string { return s.secured }

// TLSURL returns the same in the form that redis.ParseURL takes.
func (s *TLSServer) TLSURL() string { return "rediss://" + s.secured }

// Authority returns the path of the certificate, in PEM, of the authority that issued
// the server's.
func (s *TLSServer) Authority() string { return s.authority }

// Trusted returns a configuration of a client that believes the server's authority.
func (s *TLSServer) Trusted(tb testing.TB) *tls.Config {
	tb.Helper()
	authority, err := os.ReadFile(s.authority)
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		tb.Fatalf("%s holds no certificate", s.authority)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// issue makes an authority and a certificate of it for a server, and writes them into
// a directory: authority.pem, server.pem and server.key.
func issue(directory string) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	authority := certificate("authority of a test")
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	server := certificate("server of a test")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.ParseIP(loopback)}

	root, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, server, authority, key.Public(), authorityKey)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	for name, block := range map[string]*pem.Block{
		"authority.pem": {Type: "CERTIFICATE", Bytes: root},
		"server.pem":    {Type: "CERTIFICATE", Bytes: leaf},
		"server.key":    {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	return nil
}

// certificate returns a template for the certificates of a test.
func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
	}
}
