package mistakes

import (
	"context"
	"log/slog"
)

const loneBan = "ratelimit: a ban by response stands alone: requests that are in progress at the same time are all served before the first strikes"

// LoneBan warns once of a ban that answers strike, with the policy's name, and that has no limit of requests in progress beside it.
//
//nolint:contextcheck,nolintlint // at start-up there is no request; seen where it is called
func (p *Placement) LoneBan(policy string) {
	p.warn(context.Background(), &p.warned.loneBan, loneBan, slog.String("policy", policy),
		slog.String("beside_it_write", "a policy with the same By and core.Concurrent(2, 30*time.Second): no more than the strikes and 2 are served then"))
}
