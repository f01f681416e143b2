package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// Store is where limits are counted.
type Store struct {
	// URL is one that core.Open takes, or an address, or several with commas between them, by Kind.
	URL string
	// Kind is SINGLE, CLUSTER, or SENTINEL, where the name of the master comes first.
	Kind string
	// Socket is unix if the URL of a SINGLE is the path of a socket, and tcp if it is an address. Without it the URL says so.
	Socket string
	// Auth is a password, or a user and a password with a colon between them. SentinelAuth is that of the sentinels.
	Auth, SentinelAuth string
	// TLS says that the connection is encrypted. CA, Cert and Key are files in PEM. AnyName leaves out whether the certificate is for that server.
	TLS, AnyName  bool
	CA, Cert, Key string
	// Prefix is the beginning of all keys, if it is not empty.
	Prefix string
	// Denials is how many denials are remembered.
	Denials int
	// Over is the part of a limit that may be admitted too much, so that hot keys are decided without asking: see core.Lease. 0 is none.
	Over float64
	// Trace is told of the work of the store.
	Trace core.Trace
}

// denialBytes is the memory that a denial takes.
const denialBytes = 220

func storeOf(e *environment) Store {
	return Store{
		URL: e.text("REDIS_URL", "redis://localhost:6379"), Kind: strings.ToUpper(e.text("REDIS_TYPE", "SINGLE")),
		Socket: read(e, "REDIS_SOCKET_TYPE", "", func(text string) (string, error) {
			if text != "tcp" && text != "unix" {
				return "", errors.New("no kind of socket")
			}
			return text, nil
		}),
		Auth: e.text("REDIS_AUTH", ""), SentinelAuth: e.text("REDIS_SENTINEL_AUTH", ""),
		TLS: e.boolean("REDIS_TLS", false), AnyName: e.boolean("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", false),
		CA: e.text("REDIS_TLS_CACERT", ""), Cert: e.text("REDIS_TLS_CLIENT_CERT", ""), Key: e.text("REDIS_TLS_CLIENT_KEY", ""),
		Prefix: e.text("CACHE_KEY_PREFIX", ""), Denials: (e.number("LOCAL_CACHE_SIZE_IN_BYTES", 0) + denialBytes - 1) / denialBytes,
	}
}

// open returns the store and a limiter on it, and what closes both.
func (s *Store) open(budget time.Duration, logger *slog.Logger) (core.Store, *core.Limiter, func() error, error) {
	options := []core.Option{core.WithBudget(budget), core.WithQueue(1<<16, budget), core.WithLogger(logger), core.WithTrace(s.Trace)}
	if s.Prefix != "" {
		if err := core.ValidatePrefix(s.Prefix); err != nil {
			return nil, nil, nil, err
		}
		options = append(options, core.WithPrefix(s.Prefix))
	}
	store, closeClient, err := s.connect(options)
	if err != nil {
		return nil, nil, nil, err
	}
	if s.Denials > 0 {
		store = denialcache.New(store, s.Denials, core.WithLogger(logger))
	}
	if s.Over > 0 {
		store = core.Lease(store, core.Tolerance{Over: s.Over}, core.WithLogger(logger))
	}
	limiter := core.New(store, core.WithLogger(logger))
	return store, limiter, func() error { return errors.Join(limiter.Close(), closeClient()) }, nil
}

// connect returns the store. It sends nothing yet.
func (s *Store) connect(options []core.Option) (store core.Store, closeClient func() error, err error) {
	scheme, _, isURL := strings.Cut(s.URL, ":")
	isURL = isURL && (strings.Contains(s.URL, "://") || scheme == "memory")
	if isURL && s.Kind == "SINGLE" && s.Socket == "unix" && scheme != "unix" {
		return nil, nil, errNoSocket
	}
	if isURL && !s.TLS && s.Auth == "" && s.Kind == "SINGLE" {
		store, err = core.OpenStore(s.URL, options...)
		return store, func() error { return nil }, err
	}
	config, err := s.encryption()
	if err != nil {
		return nil, nil, err
	}
	if err := s.checkAddresses(); err != nil {
		return nil, nil, err
	}
	client, err := s.client(config)
	if err != nil {
		return nil, nil, err
	}
	return core.NewRedis(client, options...), client.Close, nil
}

// addresses returns the parts of the URL, without their schemes.
func (s *Store) addresses() (all []string) {
	for part := range strings.SplitSeq(s.URL, ",") {
		part = strings.TrimSpace(part)
		for _, scheme := range []string{"redis://", "rediss://"} {
			part = strings.TrimPrefix(part, scheme)
		}
		all = append(all, part)
	}
	return all
}

// errNoSocket is the error of a store that is to be reached by a socket, and is named by an address.
var errNoSocket = errors.New("REDIS_SOCKET_TYPE=unix needs the path of a socket as REDIS_URL, such as /run/redis.sock")

// isPath reports whether an address is the path of a Unix socket.
func (s *Store) isPath(address string) bool {
	switch s.Socket {
	case "tcp":
		return false
	case "unix":
		return strings.Contains(address, "/")
	}
	return strings.HasPrefix(address, "/")
}

// checkAddresses returns an error if a part of the URL is no address. It repeats no password.
func (s *Store) checkAddresses() error {
	addresses := s.addresses()
	switch {
	case s.Kind == "SENTINEL":
		addresses = addresses[1:] // the first part is the name of the master
	case s.Kind == "SINGLE" && len(addresses) > 1:
		return errors.New("several addresses are those of a CLUSTER or a SENTINEL: say which by REDIS_TYPE")
	}
	for _, address := range addresses {
		if s.Kind == "SINGLE" && s.isPath(address) {
			continue
		}
		if s.Kind == "SINGLE" && s.Socket == "unix" {
			return errNoSocket
		}
		if strings.Contains(address, "@") {
			return errors.New("the address of Redis has a user or a password: give them by REDIS_AUTH")
		}
		host, port, err := net.SplitHostPort(address)
		if number, numbered := strconv.ParseUint(port, 10, 16); err != nil || host == "" || numbered != nil || number == 0 {
			return fmt.Errorf("%q is no address of Redis: write its host and its port, such as localhost:6379", address)
		}
	}
	return nil
}

// client returns a client as core.NewRedis wants it.
func (s *Store) client(config *tls.Config) (redis.UniversalClient, error) {
	user, password := userOf(s.Auth)
	_, sentinelPassword := userOf(s.SentinelAuth)
	addresses := s.addresses()
	connections := max(32, 10*runtime.GOMAXPROCS(0))
	dialer := core.Dialer(config)
	switch s.Kind {
	case "SINGLE":
		network := "tcp"
		if s.isPath(addresses[0]) {
			network = "unix"
		}
		return redis.NewClient(&redis.Options{
			Network: network, Addr: addresses[0], Username: user, Password: password, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: dialer,
			PoolSize: connections,
		}), nil
	case "CLUSTER":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addresses, Username: user, Password: password, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: dialer, PoolSize: connections,
		}), nil
	case "SENTINEL":
		if len(addresses) < 2 {
			return nil, errors.New("REDIS_URL of a SENTINEL is the name of the master, a comma and the addresses of sentinels")
		}
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: addresses[0], SentinelAddrs: addresses[1:], SentinelPassword: sentinelPassword, Username: user, Password: password, MaxRetries: -1,
			ContextTimeoutEnabled: true, Dialer: dialer, PoolSize: connections,
		}), nil
	}
	return nil, fmt.Errorf("REDIS_TYPE=%s is none of SINGLE, CLUSTER and SENTINEL", s.Kind)
}

// userOf cuts a user and a password apart. Without a colon it is a password.
func userOf(text string) (user, password string) {
	if user, password, both := strings.Cut(text, ":"); both {
		return user, password
	}
	return "", text
}

// encryption returns the settings of TLS, or nil without it.
func (s *Store) encryption() (*tls.Config, error) {
	if !s.TLS {
		return nil, nil //nolint:nilnil // no encryption
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		authorities, err := readAuthorities(s.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = authorities
	}
	if s.Cert != "" || s.Key != "" {
		certificate, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if s.AnyName {
		config.InsecureSkipVerify = true // VerifyConnection verifies all but the name
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, one := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(one)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return config, nil
}

// readAuthorities reads a file of certificates.
func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return authorities, nil
}
