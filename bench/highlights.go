package main

import (
	"fmt"
	"runtime"
)

// highlight is one of the figures that the report begins with.
type highlight struct{ Measure, Figure string }

// highlights picks the figures of the report's first table from the comparisons. Of
// a comparison that was not run there are none.
func highlights(comparisons []comparison) []highlight {
	var found []highlight
	var alone []sample // the Memory store asked by one goroutine
	for _, c := range comparisons {
		of := func(name string, metric metric) spread { return spreadOf(each(samplesOf(c.entries, name), metric)) }
		versus := func(metric metric, name, baseline string) string {
			return showRatio(ratio(metric, samplesOf(c.entries, name), samplesOf(c.entries, baseline)))
		}
		show := func(name string, metric metric, format func(float64) string) string {
			return showMedian(metric, of(name, metric), format)
		}
		add := func(measure string, of better, figure string) {
			found = append(found, highlight{measure + string(of), figure})
		}
		switch c.slug {
		case "closed-loop-1":
			add("Wall time of a lone check, leaky, × redis_rate", less, versus(secondsEach, leakyName, redisRateName))
			add("Wall time of a lone check, GCRA as in redis_rate, × redis_rate", less, versus(secondsEach, gcraName, redisRateName))
		case "closed-loop-128", "closed-loop-512":
			goroutines := c.slug[len("closed-loop-"):]
			add(fmt.Sprintf("Checks a second, leaky, %s goroutines, × redis_rate", goroutines), more, versus(perSecond, leakyName, redisRateName))
			add("The same × redis_rate over AutoPipeline", more, versus(perSecond, leakyName, redisRateAuto))
			add("The same × a bare `EVALSHA` of `return 1`", more, versus(perSecond, leakyName, floorName))
			add(fmt.Sprintf("Redis CPU per check, %s goroutines, × redis_rate", goroutines), less, versus(redisCPUEach, leakyName, redisRateName))
			add(fmt.Sprintf("Allocations per check, %s goroutines", goroutines), less, show(leakyName, allocationsEach, showCount))
		case "paced":
			add("p50 of 256 paced callers, × redis_rate", less, versus(p50, leakyName, redisRateName))
			add("p99 of 256 paced callers, × redis_rate", less, versus(p99, leakyName, redisRateName))
			add("The same × redis_rate over AutoPipeline", less, versus(p99, leakyName, redisRateAuto))
		case "three-limits-1":
			add("Three limits in one call, 1 goroutine: wall time × one limit", less, versus(secondsEach, threeAtOnceName, leakyName))
		case "three-limits-128":
			add("Three limits in one call, 128 goroutines: requests a second × three redis_rate calls", more,
				versus(perSecond, threeAtOnceName, threeRedisRateName))
		case "denied-key-1":
			for _, e := range c.entries {
				if e.own {
					add("A denial on one hammered key, "+e.name, less, fmt.Sprintf("%s, %s allocations, %s Redis reads",
						show(e.name, secondsEach, showTime), show(e.name, allocationsEach, showCount), show(e.name, redisReadsEach, showCount)))
				}
			}
		case fmt.Sprintf("memory-%d", runtime.GOMAXPROCS(0)):
			add("Checks a second of the Memory store, "+callers(runtime.GOMAXPROCS(0))+" × one", more,
				showRatio(ratio(perSecond, samplesOf(c.entries, memoryName), alone)))
		case "memory-1":
			alone = samplesOf(c.entries, memoryName)
			add("Memory store, one check", less, fmt.Sprintf("%s, %s allocations",
				show(memoryName, secondsEach, showTime), show(memoryName, allocationsEach, showCount)))
		case "middleware":
			for _, e := range c.entries {
				if e.own {
					add("The middleware on an admitted request, store excluded, "+e.framework, less, fmt.Sprintf("%s, %s allocations",
						showMedian(secondsEach, beyondNone(e, c.entries, secondsEach), showTime),
						showMedian(allocationsEach, beyondNone(e, c.entries, allocationsEach), showCount)))
				}
			}
		case "middleware-in-memory":
			add("The middleware in memory, with the same headers, wall time × httprate", less, versus(secondsEach, netHTTP+", "+ownLegacy, othersLegacyN))
			add("The same without headers", less, versus(secondsEach, netHTTP+", "+ownSilent, othersSilentN))
		case "leases-used-up":
			add("Denials a second of a leased key that is used up, 128 goroutines, × redis_rate over AutoPipeline", more,
				versus(perSecond, usualName, redisRateAuto))
		case "logs":
			for _, e := range c.entries {
				add("Lines a second, "+e.name, more, fmt.Sprintf("%s, %s CPU a line, %s at most",
					show(e.name, perSecond, showRate), show(e.name, cpuEach, showTime), showMegabytes(e.bytes)))
			}
		case "http":
			add(fmt.Sprintf("Requests a second behind net/http, Redis, %d connections, × redis_rate in a middleware", connections), more,
				versus(perSecond, netHTTP+", "+leakyName, netHTTP+", "+redisRateName))
			add("The same × redis_rate over AutoPipeline in a middleware", more,
				versus(perSecond, netHTTP+", "+leakyName, netHTTP+", "+redisRateAuto))
			for _, framework := range []string{ginFramework, echoFramework} {
				add(fmt.Sprintf("What is left of a server without a limiter: %s × net/http", framework), more, showRatio(relativeCost(c.entries, framework)))
			}
		}
	}
	return found
}

// relativeCost compares the share of a framework's requests a second that is left behind a limiter
// with the share of net/http's.
func relativeCost(entries []*entry, framework string) spread {
	left := func(framework string) []float64 {
		limited, none := samplesOf(entries, framework+", "+leakyName), samplesOf(entries, framework+", no limiter")
		parts := make([]float64, len(limited))
		for i := range limited {
			parts[i] = perSecond.value(limited[i]) / perSecond.value(none[i])
		}
		return parts
	}
	theirs, plain := left(framework), left(netHTTP)
	for i := range theirs {
		theirs[i] /= plain[i]
	}
	return spreadOf(theirs)
}
