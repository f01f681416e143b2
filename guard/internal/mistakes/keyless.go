package mistakes

import (
	"context"
	"log/slog"

	"github.com/weir-go/ratelimit/internal/given"
)

const keyless = "ratelimit: a key function of the program has found no key in any of its first requests: they count for a substitute, such as their address"

// FoundNoKey warns of a key function of the program that has found no key in any of its first requests, once for
// each function. It may read something that is set only later.
func (p *Placement) FoundNoKey(ctx context.Context, function given.Function, requests int) {
	if _, told := p.warned.keyless.LoadOrStore(function, true); told {
		return
	}
	warn(ctx, p.logger, keyless, slog.String("function", function.Name), slog.String("line", function.Line), slog.Int("requests", requests),
		slog.String("for_a_part_of_the_path_write", `keyfuncs.PathValue("tenant"), where the router has found the route: `+writeInstead),
		slog.String("for_what_other_middleware_finds_out", "put the limiter behind that middleware"))
}
