package report

import (
	"fmt"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/policies"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// keyFunction is the key of a policy, as a program and as a file of policies say it, with advice about it.
type keyFunction struct{ advice, code, file string }

// private are the addresses that a proxy in front of the server has, if it is no public one.
var private = []string{"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}

// keyFunctionOf returns the key of a policy for what the log calls a key. The server that wrote the log may stand in front of the one that
// limits, so the address is believed that a private peer tells.
func keyFunctionOf(key accesslog.Key) keyFunction {
	switch header := key.Header(); {
	case header != "" && header != "X-Forwarded-For":
		return keyFunction{"Clients choose their headers: put a limit by address around it.", fmt.Sprintf("keyfuncs.Header(%q)", header), "header " + header}
	case strings.HasPrefix(key.String(), "json:"):
		return keyFunction{"Return what your log calls " + strings.TrimPrefix(key.String(), "json:.") + ".", "keyfuncs.User(userID)", "user"}
	}
	return keyFunction{
		"Name the addresses of your proxies alone.",
		`keyfuncs.IP(keyfuncs.TrustedProxies("` + strings.Join(private, `", "`) + `"))`, "ip trusted " + strings.Join(private, " "),
	}
}

// inCode returns Go code that runs a proposal as a shadow: it is decided and reported, and denies nobody.
func inCode(key accesslog.Key, p demand.Proposal) string {
	by := keyFunctionOf(key)
	rate := demand.Rates[p.Cell.Rate]
	unit := map[string]string{"s": "PerSecond", "m": "PerMinute", "h": "PerHour", "d": "PerDay"}[rate.String()[strings.IndexByte(rate.String(), '/')+1:]]
	return fmt.Sprintf(`%s := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
	Limit: core.Leaky(%d, core.%s(%d)).Named(%q),
	// %s
	By: %s,
	// Decide and report, and deny nobody.
	Shadow: true,
})`, p.Name, p.Cell.Burst, unit, rate.Events, p.Name, by.advice, by.code)
}

// inFile returns a file of policies that runs a proposal as a shadow, on the routes that the log was read for.
func inFile(key accesslog.Key, routes []string, p demand.Proposal) string {
	by := keyFunctionOf(key)
	policy := policies.Policy{Limit: p.Name, Key: by.file, Shadow: true}
	for _, pattern := range routes {
		policy.Match = append(policy.Match, policies.Match{Pattern: pattern})
	}
	document := policies.Document{Limits: map[string]core.Limit{p.Name: p.Cell.Limit().Named(p.Name)}, Policies: []policies.Policy{policy}}
	return "# A shadow decides and reports, and denies nobody. Take \"shadow\" away to enforce the limit.\n# The key: " +
		strings.ToLower(by.advice[:1]) + by.advice[1:] + "\n" + document.String()
}
