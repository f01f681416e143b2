package report

import (
	"fmt"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// shadow returns Go code that runs a proposal as a shadow: it is decided and reported, and denies nobody.
func shadow(key accesslog.Key, p demand.Proposal) string {
	hint, by := "Behind proxies: keyfuncs.IP(keyfuncs.TrustedProxies(\"10.0.0.0/8\"))", "keyfuncs.RemoteIP"
	switch {
	case key.Header() == "X-Forwarded-For":
		hint, by = "Name your proxies' addresses.", "keyfuncs.IP(keyfuncs.TrustedProxies(\"10.0.0.0/8\"))"
	case key.Header() != "":
		hint, by = "Clients choose their headers: put a limit by address around it.", fmt.Sprintf("keyfuncs.Header(%q)", key.Header())
	case strings.HasPrefix(key.String(), "json:"):
		hint, by = "Return what your log calls "+strings.TrimPrefix(key.String(), "json:.")+".", "keyfuncs.User(userID)"
	}
	rate := demand.Rates[p.Cell.Rate]
	unit := map[string]string{"s": "PerSecond", "m": "PerMinute", "h": "PerHour", "d": "PerDay"}[rate.String()[strings.IndexByte(rate.String(), '/')+1:]]
	return fmt.Sprintf(`%s := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
	Limit: core.Leaky(%d, core.%s(%d)).Named(%q),
	// %s
	By: %s,
	// Decide and report, and deny nobody.
	Shadow: true,
})`, p.Name, p.Cell.Burst, unit, rate.Events, p.Name, hint, by)
}
