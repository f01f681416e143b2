package main

import (
	"context"
	"fmt"
	"time"
)

// checkColumns are the columns of most tables.
func checkColumns() []column {
	return append([]column{
		figure("checks/s", perSecond, showRate),
		against(floorName, perSecond),
		against(redisRateName, perSecond),
		against(redisRateAuto, perSecond),
	}, costs("client")...)
}

// closedLoops show how much goes through when callers do not pause.
func (b *bench) closedLoops(ctx context.Context) ([]comparison, error) {
	var comparisons []comparison
	for _, goroutines := range []int{1, 16, 128, 512} {
		b.report("closed loop, %s", callers(goroutines))
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, inRedis(), roomy, func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("closed-loop-%d", goroutines),
			title: "Closed loop, " + callers(goroutines),
			text: fmt.Sprintf("Each goroutine asks about one of %s keys, at random, and asks again as soon as it has the answer. "+
				"Nothing is denied.", showRate(float64(b.names))),
			entries: entries,
			columns: checkColumns(),
			plots:   []plotted{{fmt.Sprintf("closed-loop-%d", goroutines), "checks per second", perSecond, floorName}},
		})
	}
	return comparisons, nil
}

// pacedCallers show how long callers wait who have other things to do in between.
func (b *bench) pacedCallers(ctx context.Context) ([]comparison, error) {
	const callers, longest = 256, 4 * time.Millisecond
	b.report("%d paced callers", callers)
	names := namesOf("user:", b.names)
	entries, err := b.with(ctx, inRedis(), roomy, func(entries []*entry) error {
		return turns{rounds: b.Rounds, duration: b.profile.paced, warmup: b.warmup, run: asking(func(d time.Duration) load {
			return paced(callers, longest, d, names)
		})}.take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:  "paced",
		title: fmt.Sprintf("Latency of %d paced callers", callers),
		text: fmt.Sprintf("Each caller pauses for 0 to %v before each call, as the requests of a busy server do. "+
			"Times are those of the callers, from the call to the answer.", longest),
		entries: entries,
		columns: append([]column{
			figure("p50", p50, showTime),
			against(redisRateName, p50),
			against(redisRateAuto, p50),
			figure("p99", p99, showTime),
			against(redisRateName, p99),
			against(redisRateAuto, p99),
			figure("checks/s", perSecond, showRate),
		}, costs("client")...),
		plots: []plotted{{"paced-p50", "p50", p50, redisRateName}, {"paced-p99", "p99", p99, redisRateName}},
	}}, err
}

// threeLimits show the cost of several limits for one request.
func (b *bench) threeLimits(ctx context.Context) ([]comparison, error) {
	var comparisons []comparison
	for _, goroutines := range []int{1, 128} {
		b.report("three limits, %s", callers(goroutines))
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, threeLimits(), threeQuotas()[0], func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("three-limits-%d", goroutines),
			title: "Three limits for one request, " + callers(goroutines),
			text: "A limit a second, a minute and an hour for the same key. Only the first two rows charge all or none; three calls " +
				"leave the first charged when the second denies. The first row is one limit, to compare with.",
			entries: entries,
			columns: append([]column{
				figure("requests/s", perSecond, showRate),
				against(leakyName, perSecond),
				against(threeRedisRateName, perSecond),
				against(threePipedName, perSecond),
			}, costs("client")...),
			plots: []plotted{{fmt.Sprintf("three-limits-%d", goroutines), "requests per second", perSecond, threeRedisRateName}},
		})
	}
	return comparisons, nil
}

// hotKey shows how contenders do when callers get in each other's way.
func (b *bench) hotKey(ctx context.Context) ([]comparison, error) {
	b.report("one hot key")
	entries, err := b.with(ctx, inRedis(), roomiest, func(entries []*entry) error {
		return b.turns(128, []string{"everybody"}).take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:    "hot-key",
		title:   "One hot key, 128 goroutines",
		text:    "Everybody asks about the same key, and all are admitted.",
		entries: entries,
		columns: checkColumns(),
		plots:   []plotted{{"hot-key", "checks per second", perSecond, floorName}},
	}}, err
}

// deniedKey shows the cost of an attacker.
func (b *bench) deniedKey(ctx context.Context) ([]comparison, error) {
	contenders := append(append([]contender{floor()}, ownForDenials()...), rivalsInRedis()...)
	var comparisons []comparison
	for _, goroutines := range []int{1, 128} {
		b.report("one denied key, %s", callers(goroutines))
		names := []string{"attacker"}
		entries, err := b.with(ctx, contenders, single, func(entries []*entry) error {
			for _, e := range entries {
				if _, err := e.ask(ctx, names[0]); err != nil { // the one that is admitted
					return fmt.Errorf("bench: %s: %w", e.name, err)
				}
			}
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("denied-key-%d", goroutines),
			title: "One denied key, " + callers(goroutines),
			text: "One caller hammers a key that has nothing left: one an hour, except for go-zero's token bucket, " +
				"whose least is one a second.",
			entries: entries,
			columns: append([]column{figure("each", secondsEach, showTime)}, checkColumns()...),
			plots:   []plotted{{fmt.Sprintf("denied-key-%d", goroutines), "denials per second", perSecond, floorName}},
		})
	}
	return comparisons, nil
}

// classic is ten thousand checks over a hundred names by one caller.
func (b *bench) classic(ctx context.Context) ([]comparison, error) {
	b.report("the classic row")
	contenders := []contender{
		own(leakyName, leaky, onRedis),
		own(fixedWindowName, fixedWindow, onRedis),
		own("ratelimit sliding log", slidingLog, onRedis),
		redisRate(), ululeWindow(), floor(),
	}
	entries, err := b.with(ctx, contenders, counted, func(entries []*entry) error {
		return turns{rounds: b.Rounds, warmup: time.Nanosecond, run: func(ctx context.Context, e *entry, round int, _ time.Duration) (tally, error) {
			if round < 0 {
				return eachOnce(1, namesOf("warm:", 100))(ctx, e.ask), nil
			}
			return eachOnce(1, classicNames(round, b.profile.classic))(ctx, e.ask), nil
		}}.take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:  "classic",
		title: "The classic row: one caller, a hundred names",
		text: showRate(float64(b.profile.classic)) +
			" checks over 100 names, one after the other, all admitted; new names in each round.",
		entries: entries,
		columns: append([]column{
			figure("all of them", seconds, showTime),
			figure("each", secondsEach, showTime),
			against(leakyName, seconds),
		}, costs("client")...),
		plots: []plotted{{"classic", "wall time", seconds, leakyName}},
	}}, err
}

// classicNames returns the names of a round's checks, in their order.
func classicNames(round, checks int) []string {
	hundred := namesOf(fmt.Sprintf("round%d:", round), 100)
	names := make([]string, checks)
	for i := range names {
		names[i] = hundred[i%len(hundred)]
	}
	return names
}
