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
		add := func(measure, figure string) { found = append(found, highlight{measure, figure}) }
		switch c.slug {
		case "closed-loop-1":
			add("Wall time of a lone check, leaky, × redis_rate", versus(secondsEach, leakyName, redisRateName))
			add("Wall time of a lone check, GCRA as in redis_rate, × redis_rate", versus(secondsEach, gcraName, redisRateName))
		case "closed-loop-128", "closed-loop-512":
			goroutines := c.slug[len("closed-loop-"):]
			add(fmt.Sprintf("Checks a second, leaky, %s goroutines, × redis_rate", goroutines), versus(perSecond, leakyName, redisRateName))
			add("The same × a bare `EVALSHA` of `return 1`", versus(perSecond, leakyName, floorName))
			add(fmt.Sprintf("Redis CPU per check, %s goroutines, × redis_rate", goroutines), versus(redisCPUEach, leakyName, redisRateName))
			add(fmt.Sprintf("Allocations per check, %s goroutines", goroutines), showCount(of(leakyName, allocationsEach).median))
		case "paced":
			add("p50 of 256 paced callers, × redis_rate", versus(p50, leakyName, redisRateName))
			add("p99 of 256 paced callers, × redis_rate", versus(p99, leakyName, redisRateName))
		case "three-limits-1":
			add("Three limits in one call, 1 goroutine: wall time × one limit", versus(secondsEach, threeAtOnceName, leakyName))
		case "three-limits-128":
			add("Three limits in one call, 128 goroutines: requests a second × three redis_rate calls",
				versus(perSecond, threeAtOnceName, threeRedisRateName))
		case "denied-key-1":
			for _, e := range c.entries {
				if e.own {
					add("A denial on one hammered key, "+e.name, fmt.Sprintf("%s, %s allocations, %s Redis reads",
						showTime(of(e.name, secondsEach).median), showCount(of(e.name, allocationsEach).median), showCount(of(e.name, redisReadsEach).median)))
				}
			}
		case fmt.Sprintf("memory-%d", runtime.GOMAXPROCS(0)):
			add("Checks a second of the Memory store, "+callers(runtime.GOMAXPROCS(0))+" × one",
				showRatio(ratio(perSecond, samplesOf(c.entries, memoryName), alone)))
		case "memory-1":
			alone = samplesOf(c.entries, memoryName)
			add("Memory store, one check", fmt.Sprintf("%s, %s allocations",
				showTime(of(memoryName, secondsEach).median), showCount(of(memoryName, allocationsEach).median)))
		case "middleware":
			for _, e := range c.entries {
				if e.own {
					add("The middleware on an admitted request, store excluded, "+e.framework, fmt.Sprintf("%s, %s allocations",
						showTime(beyondNone(e, c.entries, secondsEach).median), showCount(beyondNone(e, c.entries, allocationsEach).median)))
				}
			}
		case "logs":
			for _, e := range c.entries {
				add("Lines a second, "+e.name, fmt.Sprintf("%s, %s CPU a line, %s at most",
					showRate(of(e.name, perSecond).median), showTime(of(e.name, cpuEach).median), showMegabytes(e.bytes)))
			}
		case "http":
			add(fmt.Sprintf("Requests a second behind net/http, Redis, %d connections, × redis_rate in a middleware", connections),
				versus(perSecond, netHTTP+", "+leakyName, netHTTP+", "+redisRateName))
			for _, framework := range []string{ginFramework, echoFramework} {
				add(fmt.Sprintf("What is left of a server without a limiter: %s × net/http", framework), showRatio(relativeCost(c.entries, framework)))
			}
		}
	}
	return found
}

// relativeCost compares what a limiter leaves of a framework's requests a second
// with what it leaves of net/http's.
func relativeCost(entries []*entry, framework string) spread {
	left := func(framework string) []float64 {
		limited, none := samplesOf(entries, framework+", "+leakyName), samplesOf(entries, framework+", no limiter")
		parts := make([]float64, len(limited))
		for i := range limited {
			parts[i] = perSecond(limited[i]) / perSecond(none[i])
		}
		return parts
	}
	theirs, plain := left(framework), left(netHTTP)
	for i := range theirs {
		theirs[i] /= plain[i]
	}
	return spreadOf(theirs)
}
