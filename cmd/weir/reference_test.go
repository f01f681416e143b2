package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/referencetest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

var withReference = flag.Bool("reference", false, "run the integration tests of github.com/envoyproxy/ratelimit, which take minutes and fixed ports")

// referenceSkipped are the integration tests of the reference that are left out.
var referenceSkipped = []string{
	"^Test(BasicConfigMemcache|ConfigMemcacheWithMaxIdleConns|MultiNodeMemcache)$", // there is no memcached
	"^TestBasicConfig_ExtraTags$", // labels that are added to all metrics: Prometheus adds them when it reads
	"^Test_mTLSSetup$",            // it tests its own certificates
	"./LocalCache",                // they count what the reference keeps in a cache of its own
}

// TestReferenceIntegration runs the integration tests of github.com/envoyproxy/ratelimit against weir serve. The tests set the variables that they set for
// the reference. Where they have a second Redis for limits of a second, weir serve uses the first one.
func TestReferenceIntegration(t *testing.T) {
	if !*withReference {
		t.Skip("it runs with -reference: make reference")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := referencetest.Copy(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key)
	secured := func(port, clients string) {
		startRedis(t, port, "--port", "0", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
			"--tls-auth-clients", clients, "--requirepass", "password123")
	}
	secured("16381", "no")
	secured("16382", "no")
	secured("16361", "yes")
	for _, cluster := range [][]string{{"6386", "6387", "6388"}, {"6389", "6390", "6391"}} {
		var nodes []string
		for _, port := range cluster {
			startRedis(t, port, "--port", port, "--cluster-enabled", "yes", "--requirepass", "password123")
			nodes = append(nodes, "127.0.0.1:"+port)
		}
		redisCLI(t, append(append([]string{"--cluster", "create"}, nodes...), "--cluster-yes")...)
	}
	for _, s := range []struct {
		config, master, replica string
		sentinels               []string
	}{
		{"sentinel.conf", "6392", "6393", []string{"26394", "26395", "26396"}},
		{"sentinel-pre-second.conf", "6397", "6398", []string{"26399", "26400", "26401"}},
	} {
		startRedis(t, s.master, "--port", s.master, "--requirepass", "password123")
		startRedis(t, s.replica, "--port", s.replica, "--requirepass", "password123", "--replicaof", "127.0.0.1", s.master, "--masterauth", "password123")
		for _, port := range s.sentinels {
			config := filepath.Join(t.TempDir(), "sentinel.conf")
			text, err := os.ReadFile(filepath.Join(dir, "test/integration/conf", s.config))
			if err == nil {
				err = os.WriteFile(config, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			startRedis(t, port, config, "--sentinel", "--port", port)
		}
	}
	tests := referencetest.Run{
		Dir: dir,
		Overlay: map[string]string{
			"src/service_cmd/runner/runner.go": "testdata/reference/runner.go",
			"test/integration/answers_test.go": "testdata/reference/answers_test.go",
		},
		Args: []string{"-tags=integration", "-timeout=20m", "./test/integration/"}, Skip: referenceSkipped,
		Environment: []string{"WEIR_PROGRAM=" + program, asProgram + "=1", "PROJECT_DIR=" + dir, "SSL_CERT_FILE=" + cert, "SSL_CERT_DIR=/nowhere"},
	}
	want := []string{
		"TestBasicAuthConfig", "TestBasicAuthConfigWithRedisCluster", "TestBasicAuthConfigWithRedisSentinel", "TestBasicConfig", "TestBasicReloadConfig",
		"TestBasicTLSConfig", "TestReloadGRPCServerCerts", "TestShareThreshold", "TestXdsProviderBasicConfig", "TestXdsProviderBasicConfigReload", "Test_mTLS",
		"Test_mTLSAnswers",
	}
	if passed := tests.Tests(t); !slices.Equal(passed, want) {
		t.Errorf("these have passed: %q, want %q", passed, want)
	}
}

// startRedis starts a Redis on the port that the tests of the reference name, and returns when it listens. It ends with the test.
func startRedis(t *testing.T, port string, args ...string) {
	t.Helper()
	program := servertest.Program(t, "redis-server")
	command := exec.Command(program, append(args, "--save", "", "--daemonize", "no")...)
	command.Dir, command.Stderr = t.TempDir(), t.Output()
	if _, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		t.Fatalf("somebody listens on port %s, which the tests of the reference name", port)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for deadline := time.Now().Add(envoyPatience); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = connection.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// redisCLI runs redis-cli.
func redisCLI(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), servertest.Program(t, "redis-cli"), args...)
	command.Env = append(os.Environ(), "REDISCLI_AUTH=password123")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// writeCertificate writes a certificate of localhost, which is its own authority, and its key.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
