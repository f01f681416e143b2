package report

import (
	"fmt"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/demand"
)

// shadow returns Go code that runs a proposal as a shadow: it is decided and reported, and denies nobody.
func shadow(key accesslog.Key, p demand.Proposal) string {
	by := "keyfuncs.RemoteIP, // behind proxies: keyfuncs.IP(keyfuncs.TrustedProxies(\"10.0.0.0/8\"))"
	switch {
	case key.Header() == "X-Forwarded-For":
		by = "keyfuncs.IP(keyfuncs.TrustedProxies(\"10.0.0.0/8\")), // name your proxies' addresses"
	case key.Header() != "":
		by = fmt.Sprintf("keyfuncs.Header(%q),", key.Header())
	case strings.HasPrefix(key.String(), "json:"):
		by = "keyfuncs.User(userID), // what your log calls " + strings.TrimPrefix(key.String(), "json:.")
	}
	rate := demand.Rates[p.Cell.Rate]
	unit := map[string]string{"s": "PerSecond", "m": "PerMinute", "h": "PerHour", "d": "PerDay"}[rate.String()[strings.IndexByte(rate.String(), '/')+1:]]
	return fmt.Sprintf(`%s := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
	Limit:  core.Leaky(%d, core.%s(%d)).Named(%q),
	By:     %s
	Shadow: true, // decide and report, and deny nobody
})`, p.Name, p.Cell.Burst, unit, rate.Events, p.Name, by)
}
