package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// sample has the figures of one contender in one round.
type sample struct {
	tally

	allocations uint64        // by this process
	cpu         time.Duration // of this process
	redisCPU    time.Duration // of the redis-server, reading and writing sockets included
	redisReads  int64         // of the redis-server: one for each round trip or packed call
	failedOpen  int64         // requests that a middleware has let through since its store failed
}

// The figures of a sample.

var (
	perSecond         = metric{func(s sample) float64 { return float64(s.checks) / s.elapsed.Seconds() }, more, 0}
	seconds           = metric{func(s sample) float64 { return s.elapsed.Seconds() }, less, 0}
	secondsEach       = metric{func(s sample) float64 { return s.elapsed.Seconds() / float64(s.checks) }, less, 0}
	p50               = metric{func(s sample) float64 { return s.p50.Seconds() }, less, 0}
	p99               = metric{func(s sample) float64 { return s.p99.Seconds() }, less, 0}
	allocationsEach   = metric{func(s sample) float64 { return float64(s.allocations) / float64(s.checks) }, less, 0.05}
	cpuEach           = metric{func(s sample) float64 { return s.cpu.Seconds() / float64(s.checks) }, less, 0}
	redisCPUEach      = metric{func(s sample) float64 { return s.redisCPU.Seconds() / float64(s.checks) }, less, 50e-9}
	redisReadsEach    = metric{func(s sample) float64 { return float64(s.redisReads) / float64(s.checks) }, less, 0.05}
	admittedPerSecond = metric{func(s sample) float64 { return float64(s.admitted) / s.elapsed.Seconds() }, more, 0}
)

// meter reads the cost of a run in this process and in the redis-server.
type meter struct{ redis *redis.Client }

// reading is the state of the counters at one instant.
type reading struct {
	allocations uint64
	cpu         time.Duration
	redisCPU    time.Duration
	redisReads  int64
}

// measure takes a reading before and after a run. The garbage of others is collected
// before.
func (m meter) measure(ctx context.Context, run func() (tally, error)) (sample, error) {
	runtime.GC()
	before, err := m.read(ctx)
	if err != nil {
		return sample{}, err
	}
	counted, err := run()
	if err != nil {
		return sample{}, err
	}
	after, err := m.read(ctx)
	if err != nil {
		return sample{}, err
	}
	return sample{
		tally:       counted,
		allocations: after.allocations - before.allocations,
		cpu:         after.cpu - before.cpu,
		redisCPU:    after.redisCPU - before.redisCPU,
		redisReads:  after.redisReads - before.redisReads - 1, // the second reading's own
	}, nil
}

func (m meter) read(ctx context.Context) (reading, error) {
	info, err := m.redis.Info(ctx, "cpu", "stats").Result()
	if err != nil {
		return reading{}, fmt.Errorf("bench: asking redis-server what it has used: %w", err)
	}
	user, err := infoNumber(info, "used_cpu_user")
	if err != nil {
		return reading{}, err
	}
	system, err := infoNumber(info, "used_cpu_sys")
	if err != nil {
		return reading{}, err
	}
	reads, err := infoNumber(info, "total_reads_processed")
	if err != nil {
		return reading{}, err
	}
	cpu, err := processCPU()
	if err != nil {
		return reading{}, fmt.Errorf("bench: asking the system what this process has used: %w", err)
	}
	return reading{
		allocations: heapObjects(),
		cpu:         cpu,
		redisCPU:    time.Duration((user + system) * float64(time.Second)),
		redisReads:  int64(reads),
	}, nil
}

// usedMemory returns how many bytes the redis-server uses.
func (m meter) usedMemory(ctx context.Context) (float64, error) {
	info, err := m.redis.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("bench: asking redis-server for its memory: %w", err)
	}
	return infoNumber(info, "used_memory")
}

// infoField returns a field of the reply to INFO.
func infoField(info, field string) (string, error) {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("bench: the reply to INFO has no %s", field)
}

func infoNumber(info, field string) (float64, error) {
	text, err := infoField(info, field)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: %s in the reply to INFO: %w", field, err)
	}
	return number, nil
}

// heapObjects returns how many objects this process has allocated so far.
func heapObjects() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

// heapInUse returns how much memory objects take: live ones only, if it is asked
// right after a collection.
func heapInUse() uint64 {
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return statistics.HeapAlloc
}
