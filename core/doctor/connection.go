package doctor

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
)

// connectionProblem says why a server cannot be talked to.
func connectionProblem(err error) Finding {
	f := Finding{Name: "connection", Severity: Problem, Found: err.Error()}
	f.Meaning, f.Advice = explainFailure(err)
	return f
}

const (
	hungUp = "The server hung up. One that expects TLS does that to a client that does not speak it."
	tryTLS = "Try rediss:// instead of redis://."
)

// failures are the causes that the text of an error can name, in the order in which they are looked for.
var failures = [...]struct{ text, meaning, advice string }{
	{"ACL failure in script", "The user lacks a permission that a script needs.", "Give them the permissions that the documentation of package core lists."},
	{"The user executing the script can't", "The user may not run a command of the script, or touch its keys.", "See permissions."},
	{"NOAUTH", "The server wants a password.", "Put the user and the password into the URL, or into the client's options."},
	{"Protocol error: unauthenticated", "The server wants a password.", "Put the user and the password into the URL, or into the client's options."},
	{"WRONGPASS", "The server does not know this user with this password.", "Correct them, or make the user: ACL SETUSER."},
	{"NOPERM", "The user lacks a permission that a limiter needs.", "Give them the permissions that the documentation of package core lists."},
	{"READONLY", "The server is a replica, which takes no charges.", "Connect to the master; with Sentinel, by master_name."},
	{"NOREPLICAS", "The server takes no writes because too few replicas follow it.", "Bring the replicas back, or lower min-replicas-to-write."},
	{"OOM", "The server's memory is full, and it takes no writes.", "Give it more memory, or find out which other keys fill it."},
	{"MISCONF", "The server takes no writes since it could not save a snapshot.", "Repair its disk, or set stop-writes-on-bgsave-error no."},
	{"LOADING", "The server is reading its data set from disk.", "Wait. For a server of limits alone, persistence can be off."},
	{"MASTERDOWN", "The server is a replica that has lost its master.", "Connect to the master."},
	{"CLUSTERDOWN", "The cluster does not serve.", "Look at CLUSTER INFO and CLUSTER NODES on any node."},
	{"BUSY ", "A script has been running for too long, and blocks the server.", "SCRIPT KILL, and find the program that runs it: ours are short."},
	{"cluster support disabled", "The client is one for a cluster, but the server is none.", "Leave addr= out of the URL, or use redis.NewClient."},
	{"unknown command", "The server does not know a command that a limiter needs.", "Use Redis 6.2 or newer, or Valkey, with no command renamed or disabled."},
	{"x509:", "The server's certificate is not believed.", "If a private authority issued it, set RootCAs in the client's TLSConfig, or SSL_CERT_FILE."},
	{"tls:", "The server does not speak TLS as the client does.", "Use rediss:// with the server's TLS port, and redis:// with its plain one."},
	{"connection refused", "Nothing listens at that address.", "Start the server, or correct the address."},
	{"no such host", "The name of the server is not known.", "Correct the address, or the name service."},
	{"EOF", hungUp, tryTLS},
	{"connection reset", hungUp, tryTLS},
}

// refusedInScript matches the error of Redis 7.2 and newer, and Valkey, for a script that runs a command forbidden to its
// user.
var refusedInScript = regexp.MustCompile(`ACL failure in script: User (\S+) has no permissions to run the '([^']+)' command`)

// explainFailure explains an error in plain words, and how to mend it.
func explainFailure(err error) (meaning, advice string) {
	text := err.Error()
	if refused := refusedInScript.FindStringSubmatch(text); refused != nil {
		return "The user may not run a command of the script.", "As an administrator: ACL SETUSER " + refused[1] + " +" + refused[2]
	}
	for _, failure := range failures {
		if strings.Contains(text, failure.text) {
			return failure.meaning, failure.advice
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "The server does not answer in time.", "Look whether it runs, whether a firewall is in between, and whether both speak TLS or neither does."
	}
	return "No check can be decided there.", "Look into the server's log."
}
