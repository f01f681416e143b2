package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-go/ratelimit/core"
)

// The names of the contenders for hot keys.
const (
	leasedName  = leakyName + ", leased"
	besideName  = leakyName + ", leased beside it"
	timeName    = "x/time/rate"
	leasedGuard = "ratelimit leaky, leased"
	exactGuard  = "ratelimit leaky, exact"
)

// flood admits whatever this machine can ask.
var flood = quota{1_000_000_000, time.Second}

// onLeases is the store on Redis with leases of a tenth of a second on it.
func onLeases(s *setup) core.Store { return core.Lease(onRedis(s), core.Tolerance{Over: 0.1}) }

// leases show what a hot key costs when it is decided in the process.
func (b *bench) leases(ctx context.Context) ([]comparison, error) {
	contenders := []contender{emptyLoop(), own(leasedName, leaky, onLeases), own(leakyName, leaky, onRedis), redisRate(), timeRate(), httprateMemory()}
	var comparisons []comparison
	for _, goroutines := range slices.Compact([]int{1, runtime.GOMAXPROCS(0), 128}) {
		hot := namesOf("user:", min(100, b.names))
		b.report("hot keys, %s", callers(goroutines))
		entries, err := b.with(ctx, contenders, flood, func(entries []*entry) error {
			if err := heat(ctx, entries, hot); err != nil {
				return err
			}
			return b.turns(goroutines, hot).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		slug := fmt.Sprintf("leases-%d", goroutines)
		comparisons = append(comparisons, comparison{
			slug:  slug,
			title: fmt.Sprintf("%d hot keys, %s", len(hot), callers(goroutines)),
			text: "All are admitted. The leased row decides in the process, from units that Redis has charged ahead of time, and may admit a tenth of the " +
				"capacity too much; the exact ones ask Redis each time, and the last two know nothing of other processes.",
			entries: entries,
			columns: leaseColumns(),
			plots:   []plotted{{slug, "checks per second", perSecond, leakyName}},
		})
	}
	for _, more := range []func(context.Context) (comparison, error){b.leasedMix, b.leasedLatency, b.leasedMiddleware} {
		one, err := more(ctx)
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, one)
	}
	return comparisons, nil
}

func leaseColumns() []column {
	return append([]column{
		figure("each", secondsEach, showTime),
		figure("checks/s", perSecond, showRate),
		against(leakyName, perSecond),
		against(timeName, perSecond),
	}, costs("client")...)
}

// heat asks about each name until it is leased where that is possible.
func heat(ctx context.Context, entries []*entry, names []string) error {
	for _, e := range entries {
		for range 3 {
			for _, name := range names {
				for range 8 {
					if _, err := e.ask(ctx, name); err != nil {
						return fmt.Errorf("bench: %s: %w", e.name, err)
					}
				}
			}
		}
	}
	return nil
}

// leasedMix shows hot keys among others, which stay exact.
func (b *bench) leasedMix(ctx context.Context) (comparison, error) {
	const goroutines, hot = 128, 100
	names := namesOf("user:", b.names)
	mixed := slices.Concat(names, slices.Repeat(names[:min(hot, len(names))], len(names)/hot*99+1))
	b.report("hot keys among %d", len(names))
	entries, err := b.with(ctx, []contender{own(leasedName, leaky, onLeases), own(leakyName, leaky, onRedis)}, flood, func(entries []*entry) error {
		return b.turns(goroutines, mixed).take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-mixed",
		title: fmt.Sprintf("%d hot keys among %s, %s", hot, showRate(float64(len(names))), callers(goroutines)),
		text:  "One check in a hundred is about a key that is not hot, and asks Redis.", entries: entries,
		columns: append([]column{
			figure("each", secondsEach, showTime), figure("checks/s", perSecond, showRate), against(leakyName, perSecond),
		}, costs("client")...),
		plots: []plotted{{"leases-mixed", "checks per second", perSecond, leakyName}},
	}, err
}

// leasedLatency shows what a caller waits for a leased key, and for an exact one beside it.
func (b *bench) leasedLatency(ctx context.Context) (comparison, error) {
	const goroutines, longest = 16, 200 * time.Microsecond
	b.report("latency of hot keys")
	contenders := []contender{own(leasedName, leaky, onLeases), own(leakyName, leaky, onRedis), besideLeased()}
	entries, err := b.with(ctx, contenders, flood, func(entries []*entry) error {
		return turns{rounds: b.Rounds, duration: b.profile.paced, warmup: b.warmup, run: asking(func(d time.Duration) load {
			return paced(goroutines, longest, d, []string{"everybody"})
		})}.take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-latency",
		title: fmt.Sprintf("Latency of a hot key, %d paced callers", goroutines),
		text: fmt.Sprintf("Each caller pauses for 0 to %v before each call. The last row is an exact key, whose callers ask about a leased one "+
			"before each pause.", longest),
		entries: entries,
		columns: []column{
			figure("p50", p50, showTime), against(leakyName, p50), figure("p99", p99, showTime), against(leakyName, p99),
			figure("checks/s", perSecond, showRate),
		},
		plots: []plotted{{"leases-latency", "p99", p99, leakyName}},
	}, err
}

// besideLeased is an exact limit in a process that leases others.
func besideLeased() contender {
	return contender{name: besideName, algorithm: "leaky", own: true, open: func(s *setup, q quota) (Ask, error) {
		limiter := ownLimiter(s, onLeases)
		exact, leased := leaky(q).Exact(), leaky(q)
		return func(ctx context.Context, key string) (bool, error) {
			d, err := limiter.Allow(ctx, key, exact)
			if err == nil {
				_, err = limiter.Allow(ctx, "leased", leased)
			}
			return d.Allowed, err
		}, nil
	}}
}

// leasedMiddleware shows the whole middleware under a hot key.
func (b *bench) leasedMiddleware(ctx context.Context) (comparison, error) {
	b.report("the middleware under a hot key")
	var contenders []contender
	for _, v := range []struct {
		name  string
		store func(*setup) core.Store
	}{{leasedGuard, onLeases}, {exactGuard, onRedis}} {
		open := ownHTTP(v.store)
		contenders = append(contenders, contender{name: v.name, own: true, open: func(s *setup, q quota) (Ask, error) {
			handler, err := open(s, q)
			response, request := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", nil)
			return func(context.Context, string) (bool, error) {
				handler.ServeHTTP(response, request)
				return true, nil
			}, err
		}})
	}
	entries, err := b.with(ctx, contenders, flood, func(entries []*entry) error {
		return b.turns(1, []string{""}).take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-middleware",
		title: "The middleware under a hot key, 1 goroutine",
		text:  "A response that goes nowhere, and headers as usual.", entries: entries,
		columns: []column{
			figure("each", secondsEach, showTime), figure("requests/s", perSecond, showRate), against(exactGuard, perSecond),
			figure("allocations", allocationsEach, showCount), figure("CPU", cpuEach, showTime),
		},
		plots: []plotted{{"leases-middleware", "requests per second", perSecond, exactGuard}},
	}, err
}

// timeRate is the limiter of the Go project, one for each key.
func timeRate() contender {
	return contender{
		name: timeName, algorithm: "token bucket", note: "One limiter for each key in a sync.Map, as its users write it; no bound on their number.",
		open: func(_ *setup, q quota) (Ask, error) {
			var limiters sync.Map
			limit := rate.Limit(float64(q.n) / q.per.Seconds())
			return func(_ context.Context, key string) (bool, error) {
				found, ok := limiters.Load(key)
				if !ok {
					found, _ = limiters.LoadOrStore(key, rate.NewLimiter(limit, q.n))
				}
				return found.(*rate.Limiter).Allow(), nil //nolint:forcetypeassert // the map holds nothing else
			}, nil
		},
	}
}
