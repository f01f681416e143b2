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
	usualName   = leakyName + ", leased at 0.01"
	besideName  = leakyName + ", leased beside it"
	timeName    = "x/time/rate"
	leasedGuard = "ratelimit leaky, leased"
	exactGuard  = "ratelimit leaky, exact"
)

// flood admits all that this machine can ask.
var flood = quota{1_000_000_000, time.Second}

// onLeases is the store on Redis with leases of a tenth of a second on it.
func onLeases(s *setup) core.Store { return core.Lease(onRedis(s), core.Tolerance{Over: 0.1}) }

// onServedLeases is the same behind a middleware.
func onServedLeases(s *setup) core.Store { return core.Lease(onServed(s), core.Tolerance{Over: 0.1}) }

// onUsualLeases is the store on Redis with leases as the README shows them.
func onUsualLeases(s *setup) core.Store { return core.Lease(onRedis(s), core.Tolerance{Over: 0.01}) }

// usual is a limit as users have it.
var usual = quota{2_000, time.Second}

// usually are the contenders under limits that users have.
func usually() []contender {
	return []contender{own(usualName, leaky, onUsualLeases), own(leakyName, leaky, onRedis), redisRate(), redisRateAutoPipeline()}
}

// usualColumns are the columns of tables in which some calls are denied.
func usualColumns() []column {
	return append([]column{
		figure("answers/s", perSecond, showRate),
		against(leakyName, perSecond),
		against(redisRateName, perSecond),
		against(redisRateAuto, perSecond),
		figure("admitted/s", admittedPerSecond, showRate),
	}, costs("client")...)
}

// leasedBelow shows a lease of a limit that is not reached.
func (b *bench) leasedBelow(ctx context.Context) (comparison, error) {
	const callers, longest = 16, 20 * time.Millisecond
	b.report("a limit that users have, below it")
	entries, err := b.with(ctx, usually(), usual, func(entries []*entry) error {
		return turns{rounds: b.Rounds, duration: b.profile.paced, warmup: b.warmup, run: asking(func(d time.Duration) load {
			return paced(callers, longest, d, []string{"everybody"})
		})}.take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-below",
		title: fmt.Sprintf("A limit of 2,000 a second, below it, %d paced callers", callers),
		text: fmt.Sprintf("Leases with `Over: 0.01`, which last ten milliseconds here. Each caller pauses for 0 to %v before each call about the one key, "+
			"so that some 1,500 a second are asked for, and all are admitted.", longest),
		entries: entries,
		columns: append([]column{
			figure("p50", p50, showTime), against(leakyName, p50), figure("p99", p99, showTime), against(leakyName, p99),
		}, usualColumns()...),
		plots: []plotted{{"leases-below", "p50", p50, leakyName}},
	}, err
}

// leasedAbove shows a lease of a limit of which far more is asked for.
func (b *bench) leasedAbove(ctx context.Context) (comparison, error) {
	const goroutines = 128
	b.report("a limit that users have, above it")
	entries, err := b.with(ctx, usually(), usual, func(entries []*entry) error {
		return b.turns(goroutines, []string{"everybody"}).take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-above",
		title: "A limit of 2,000 a second, far above it, " + callers(goroutines),
		text: "Leases with `Over: 0.01`. All ask about one key, without a pause, so that most are denied: a unit is free again every half millisecond. " +
			"The lease remembers each denial until then. What is admitted includes what was left over when a contender's turn came: up to 2,000 at once.",
		entries: entries,
		columns: usualColumns(),
		plots:   []plotted{{"leases-above", "answers per second", perSecond, leakyName}},
	}, err
}

// leasedUsedUp shows a lease of a key that has nothing left.
func (b *bench) leasedUsedUp(ctx context.Context) (comparison, error) {
	const goroutines = 128
	b.report("a leased key that is used up")
	contenders, hourly := append([]contender{emptyLoop()}, usually()...), quota{b.usedUp, time.Hour}
	entries, err := b.with(ctx, contenders, hourly, func(entries []*entry) error {
		for _, e := range entries {
			if err := all(ctx, e.contender, e.ask, slices.Repeat([]string{"everybody"}, hourly.n+1)); err != nil {
				return err
			}
		}
		return b.turns(goroutines, []string{"everybody"}).take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "leases-used-up",
		title: "A key that is used up, " + callers(goroutines),
		text: fmt.Sprintf("Leases with `Over: 0.01`. The limit of %s an hour is used up before, and a unit is free again every %v. "+
			"The lease denies from memory until then.", showRate(float64(hourly.n)), showTime(hourly.per.Seconds()/float64(hourly.n))),
		entries: entries,
		columns: usualColumns(),
		plots:   []plotted{{"leases-used-up", "answers per second", perSecond, leakyName}},
	}, err
}

// leases show the cost of a hot key that is decided in the process.
func (b *bench) leases(ctx context.Context) ([]comparison, error) {
	contenders := []contender{
		emptyLoop(), own(leasedName, leaky, onLeases), own(leakyName, leaky, onRedis), redisRate(), redisRateAutoPipeline(), timeRate(), httprateMemory(),
	}
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
	for _, more := range []func(context.Context) (comparison, error){
		b.leasedBelow, b.leasedAbove, b.leasedUsedUp, b.leasedMix, b.leasedLatency, b.leasedMiddleware,
	} {
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

// leasedLatency shows how long a caller waits for a leased key, and for an exact one beside it.
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
	}{{leasedGuard, onServedLeases}, {exactGuard, onServed}} {
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
