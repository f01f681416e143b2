package main

import (
	"context"
	"fmt"

	"github.com/weir-go/ratelimit/core"
)

// The names of the contenders for shares.
const (
	twoChecksName = "ratelimit, two checks of a call"
	fairShareName = "ratelimit, a cap and a tenant's share"
)

// fairShares shows the cost of a tenant's share of a limit, beside that of a second limit.
func (b *bench) fairShares(ctx context.Context) (list []comparison, err error) {
	b.report("fair shares")
	for _, goroutines := range []int{1, 128} {
		c := comparison{
			slug:  fmt.Sprintf("fair-shares-%d", goroutines),
			title: "Shares of a limit, " + callers(goroutines),
			text: "Each call is charged to one limit for all. Besides it has a check of a limit for each tenant, or a check of the tenant's share, " +
				"which reads and writes the limit for all, too. No call is denied.",
			columns: append([]column{
				figure("calls/s", perSecond, showRate), against(twoChecksName, perSecond), against(twoChecksName, redisCPUEach),
			}, costs("client")...),
		}
		c.entries, err = b.with(ctx, []contender{twoChecks(), sharesOfCap()}, roomiest, func(entries []*entry) error {
			return b.turns(goroutines, namesOf("tenant:", b.names)).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// ownCalls makes a contender that asks for some checks of this project in one call.
func ownCalls(name string, checks func(limit core.Quota, tenant string) []core.Check) contender {
	return contender{name: name, algorithm: "leaky", own: true, open: func(s *setup, q quota) (Ask, error) {
		store := onRedis(s)
		s.atEnd(store.Close)
		limiter, limit := core.New(store), core.Leaky(q.n, core.Per(q.n, q.per))
		return func(ctx context.Context, tenant string) (bool, error) {
			decisions, err := limiter.AllowAll(ctx, checks(limit, tenant)...)
			_, denied := core.Denied(decisions)
			return err == nil && !denied, err
		}, nil
	}}
}

func twoChecks() contender {
	return ownCalls(twoChecksName, func(limit core.Quota, tenant string) []core.Check {
		return []core.Check{{Key: "all", Limit: limit}, {Key: tenant, Limit: limit}}
	})
}

func sharesOfCap() contender {
	return ownCalls(fairShareName, func(limit core.Quota, tenant string) []core.Check {
		return core.FairShare(core.Check{Key: "shared", Limit: limit}, tenant, 1)
	})
}
