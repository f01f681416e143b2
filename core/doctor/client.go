package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// examineClient finds out whether a client suits a limiter.
func examineClient(client redisstore.Topology) Report {
	settings, known := client.Settings()
	if !known {
		return Report{{
			Name: "client", Severity: Notice,
			Found:   fmt.Sprintf("the options of a %T cannot be seen", client.Client),
			Meaning: "If it repeats calls that timed out, requests may be charged twice.",
			Advice:  "Have it repeat nothing, and heed deadlines.",
		}}
	}
	return Report{examineRetries(&settings), examineDeadlines(&settings), examineDialer(&settings), examineEncryption(&settings)}
}

func examineRetries(s *redisstore.Settings) Finding {
	f := Finding{Name: "retries", Severity: OK, Found: "the client repeats no call (MaxRetries: -1)"}
	if s.Retries > 0 {
		f.Severity = Problem
		f.Found = fmt.Sprintf("the client repeats a call up to %d times (MaxRetries)", s.Retries)
		f.Meaning = "A call that timed out may have been charged, and is charged again: clients get less than their limit."
		f.Advice = "Set MaxRetries: -1 in the client's options; in a URL, leave max_retries out."
	} else if s.Redirects > 0 {
		f.Found += fmt.Sprintf(", and follows up to %d redirections", s.Redirects)
		f.Meaning = "A cluster's client counts a connection that breaks among them, so a call may be charged twice then."
	}
	return f
}

func examineDeadlines(s *redisstore.Settings) Finding {
	if s.Deadlines {
		return Finding{Name: "deadlines", Severity: OK, Found: "the client heeds deadlines (ContextTimeoutEnabled)"}
	}
	return Finding{
		Name: "deadlines", Severity: Notice,
		Found:   "the client ignores deadlines (ContextTimeoutEnabled: false)",
		Meaning: "The budget holds, but each call takes another goroutine, which stays while Redis does not answer.",
		Advice:  "Set ContextTimeoutEnabled: true in the client's options.",
	}
}

func examineDialer(s *redisstore.Settings) Finding {
	if !s.NoDialer {
		return Finding{Name: "dialer", Severity: OK, Found: "the client was given a dialer"}
	}
	return Finding{
		Name: "dialer", Severity: Notice,
		Found:   "the client opens its connections itself (Dialer: nil)",
		Meaning: "In a process that has more to do than it has processors for, an answer can be read too late and counts as none.",
		Advice:  "Set Dialer: core.Dialer(nil) in the client's options, or core.Dialer(config) for TLS.",
	}
}

func examineEncryption(s *redisstore.Settings) Finding {
	f := Finding{Name: "encryption", Severity: OK, Found: "TLS"}
	switch {
	case s.TLS != nil && s.TLS.InsecureSkipVerify && s.TLS.VerifyConnection == nil && s.TLS.VerifyPeerCertificate == nil:
		f.Severity = Notice
		f.Found = "TLS, but the server's certificate is not verified (InsecureSkipVerify)"
		f.Meaning = "An attacker on the network can pretend to be Redis, learn the password and decide."
		f.Advice = "Set RootCAs in the client's TLSConfig to the authority that issued the certificate."
	case s.TLS != nil:
	case s.Network == "unix":
		f.Found = "none, over a Unix socket"
	case !slices.ContainsFunc(s.Addresses, isRemote):
		f.Found = "none, within this machine"
	default:
		f.Severity = Notice
		f.Found = "none"
		f.Meaning = "An attacker on the network can read the password and the keys, and change them."
		f.Advice = "Use rediss://, unless the network is your own alone."
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
