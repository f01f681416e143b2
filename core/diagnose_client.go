package core

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/topology"
)

// clientSettings are those of the client that is examined.
type clientSettings topology.Settings

// diagnoseClient finds out whether the store's client suits a limiter.
func (r *Redis) diagnoseClient() Diagnosis {
	found, known := r.topology.Settings()
	if !known {
		return Diagnosis{{
			Name: "client", Severity: SeverityNotice,
			Found:   fmt.Sprintf("the options of a %T cannot be seen", r.topology.Client),
			Meaning: "If it repeats what timed out, requests may be charged twice.",
			Advice:  "Have it repeat nothing, and heed deadlines.",
		}}
	}
	settings := clientSettings(found)
	return Diagnosis{settings.diagnoseRetries(), settings.diagnoseDeadlines(), settings.diagnoseDialer(), settings.diagnoseEncryption()}
}

func (s *clientSettings) diagnoseRetries() Finding {
	f := Finding{Name: "retries", Severity: SeverityOK, Found: "the client repeats no question (MaxRetries: -1)"}
	if s.Retries > 0 {
		f.Severity = SeverityProblem
		f.Found = fmt.Sprintf("the client repeats a question up to %d times (MaxRetries)", s.Retries)
		f.Meaning = "A question that timed out may have been charged, and is charged again: clients get less than their limit."
		f.Advice = "Set MaxRetries: -1 in the client's options; in a URL, leave max_retries out."
	} else if s.Redirects > 0 {
		f.Found += fmt.Sprintf(", and follows up to %d redirections", s.Redirects)
		f.Meaning = "A cluster's client counts a connection that breaks among them, so a question may be charged twice then."
	}
	return f
}

func (s *clientSettings) diagnoseDeadlines() Finding {
	if s.Deadlines {
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
	if !s.NoDialer {
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
	case s.TLS != nil && s.TLS.InsecureSkipVerify && s.TLS.VerifyConnection == nil && s.TLS.VerifyPeerCertificate == nil:
		f.Severity = SeverityNotice
		f.Found = "TLS, but the server's certificate is not verified (InsecureSkipVerify)"
		f.Meaning = "Whoever stands in between can pretend to be Redis, learn the password and decide."
		f.Advice = "Set RootCAs in the client's TLSConfig to the authority that issued the certificate."
	case s.TLS != nil:
	case s.Network == "unix":
		f.Found = "none, over a Unix socket"
	case !slices.ContainsFunc(s.Addresses, isRemote):
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
