package core

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

// clientSettings is what matters of a client's options.
type clientSettings struct {
	retries   int
	redirects int // of a cluster's
	deadlines bool
	looksOnce bool // its connections are go-redis' own, see [Dialer]
	tls       *tls.Config
	network   string
	addresses []string
}

// settingsOf returns the settings of a client, if it is one that has them.
func settingsOf(rdb redis.UniversalClient) (s clientSettings, known bool) {
	switch client := rdb.(type) {
	case *redis.Client:
		o := client.Options()
		return clientSettings{o.MaxRetries, 0, o.ContextTimeoutEnabled, dial.Default(o.Dialer), o.TLSConfig, o.Network, []string{o.Addr}}, true
	case *redis.ClusterClient:
		o := client.Options()
		return clientSettings{o.MaxRetries, o.MaxRedirects, o.ContextTimeoutEnabled, dial.Default(o.Dialer), o.TLSConfig, "tcp", o.Addrs}, true
	case *redis.Ring:
		o := client.Options()
		return clientSettings{o.MaxRetries, 0, o.ContextTimeoutEnabled, dial.Default(o.Dialer), o.TLSConfig, "tcp", slices.Collect(maps.Values(o.Addrs))}, true
	}
	return clientSettings{}, false
}

// diagnoseClient finds out whether the store's client suits a limiter.
func (r *Redis) diagnoseClient() Diagnosis {
	settings, known := settingsOf(r.topology.client)
	if !known {
		return Diagnosis{{
			Name: "client", Severity: SeverityNotice,
			Found:   fmt.Sprintf("the options of a %T cannot be seen", r.topology.client),
			Meaning: "If it repeats what timed out, requests may be charged twice.",
			Advice:  "Have it repeat nothing, and heed deadlines.",
		}}
	}
	return Diagnosis{settings.diagnoseRetries(), settings.diagnoseDeadlines(), settings.diagnoseDialer(), settings.diagnoseEncryption()}
}

func (s *clientSettings) diagnoseRetries() Finding {
	f := Finding{Name: "retries", Severity: SeverityOK, Found: "the client repeats no question (MaxRetries: -1)"}
	if s.retries > 0 {
		f.Severity = SeverityProblem
		f.Found = fmt.Sprintf("the client repeats a question up to %d times (MaxRetries)", s.retries)
		f.Meaning = "A question that timed out may have been charged, and is charged again: clients get less than their limit."
		f.Advice = "Set MaxRetries: -1 in the client's options; in a URL, leave max_retries out."
	} else if s.redirects > 0 {
		f.Found += fmt.Sprintf(", and follows up to %d redirections", s.redirects)
		f.Meaning = "A cluster's client counts a connection that breaks among them, so a question may be charged twice then."
	}
	return f
}

func (s *clientSettings) diagnoseDeadlines() Finding {
	if s.deadlines {
		return Finding{Name: "deadlines", Severity: SeverityOK, Found: "the client heeds deadlines (ContextTimeoutEnabled)"}
	}
	return Finding{
		Name: "deadlines", Severity: SeverityNotice,
		Found:   "the client ignores deadlines (ContextTimeoutEnabled: false)",
		Meaning: "The budget holds, but each question takes another goroutine, which stays while Redis does not answer.",
		Advice:  "Set ContextTimeoutEnabled: true in the client's options.",
	}
}

func (s *clientSettings) diagnoseDialer() Finding {
	if !s.looksOnce {
		return Finding{Name: "dialer", Severity: SeverityOK, Found: "the client was given a dialer"}
	}
	return Finding{
		Name: "dialer", Severity: SeverityNotice,
		Found:   "the client opens its connections itself (Dialer: nil)",
		Meaning: "In a process that has more to do than it has processors for, an answer can be read too late and counts as none.",
		Advice:  "Set Dialer: core.Dialer(nil) in the client's options, or core.Dialer(config) for TLS.",
	}
}

func (s *clientSettings) diagnoseEncryption() Finding {
	f := Finding{Name: "encryption", Severity: SeverityOK, Found: "TLS"}
	switch {
	case s.tls != nil && s.tls.InsecureSkipVerify && s.tls.VerifyConnection == nil && s.tls.VerifyPeerCertificate == nil:
		f.Severity = SeverityNotice
		f.Found = "TLS, but the server's certificate is not verified (InsecureSkipVerify)"
		f.Meaning = "Whoever stands in between can pretend to be Redis, learn the password and decide."
		f.Advice = "Set RootCAs in the client's TLSConfig to the authority that issued the certificate."
	case s.tls != nil:
	case s.network == "unix":
		f.Found = "none, over a Unix socket"
	case !slices.ContainsFunc(s.addresses, isRemote):
		f.Found = "none, within this machine"
	default:
		f.Severity = SeverityNotice
		f.Found = "none"
		f.Meaning = "Whoever is on the network in between can read the password and the keys, and change them."
		f.Advice = "Use rediss://, unless the network is yours alone."
	}
	return f
}

// isRemote reports whether an address may be on another machine.
func isRemote(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	return !strings.EqualFold(host, "localhost") && !net.ParseIP(host).IsLoopback()
}
