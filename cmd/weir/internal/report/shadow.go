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

// placeholder stands for the address of a proxy. It is one for documentation (RFC 5737), so no client connects from it, and no client is believed
// until the user has written another one.
const placeholder = "192.0.2.1"

// keyFunctionOf returns the key of a policy for a key of the log. The server that wrote the log may stand in front of the one that
// limits, so the key has a place for the addresses of proxies.
func keyFunctionOf(key accesslog.Key) keyFunction {
	switch header := key.Header(); {
	case header != "" && header != "X-Forwarded-For":
		return keyFunction{"Clients choose their headers: put a limit by address around it.", fmt.Sprintf("keyfuncs.Header(%q)", header), "header " + header}
	case strings.HasPrefix(key.String(), "json:"):
		return keyFunction{"Return what your log calls " + strings.TrimPrefix(key.String(), "json:.") + ".", "keyfuncs.User(userID)", "user"}
	}
	return keyFunction{
		"Write the addresses of your proxies instead of " + placeholder + ", or trust none if clients connect directly.",
		`keyfuncs.IP(keyfuncs.TrustedProxies("` + placeholder + `"))`, "ip trusted " + placeholder,
	}
}

// inCode returns Go code that runs a proposal as a shadow: it is decided and reported, and denies no request.
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
