// Command rlsload asks a rate limit service of Envoy over and over, for benchmarks, and writes what it has seen as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// load is what is asked.
type load struct {
	address                                 string
	connections, callers, descriptors, keys int
	warmup, duration                        time.Duration
}

// Counts are what was seen.
type Counts struct {
	Admitted int           `json:"Admitted"`
	Denied   int           `json:"Denied"`
	Errors   int           `json:"Errors"`
	Elapsed  time.Duration `json:"Elapsed"`
	P50      time.Duration `json:"P50"`
	P99      time.Duration `json:"P99"`
}

func main() {
	var l load
	flag.StringVar(&l.address, "address", "localhost:8081", "the address of the service")
	flag.IntVar(&l.connections, "connections", 4, "how many connections there are")
	flag.IntVar(&l.callers, "callers", 64, "how many requests are asked at once, all connections together")
	flag.IntVar(&l.descriptors, "descriptors", 1, "how many descriptors a request has: their keys are key0, key1 and so on, of the domain load")
	flag.IntVar(&l.keys, "keys", 10_000, "how many values a descriptor may have")
	flag.DurationVar(&l.warmup, "warmup", 0, "how long is asked before it counts")
	flag.DurationVar(&l.duration, "duration", time.Second, "how long is asked")
	flag.Parse()
	counts, err := l.run(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(counts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rlsload:", err)
		os.Exit(1)
	}
}

// encoded is a message as it is sent. The client spends no time on messages.
type encoded []byte

// codec sends and receives encoded messages.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*encoded))}, nil //nolint:forcetypeassert // this program sends nothing else
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	to := v.(*encoded) //nolint:forcetypeassert // this program receives nothing else
	*to = append((*to)[:0], data.Materialize()...)
	return nil
}

var _ encoding.CodecV2 = codec{}

// requests returns requests about different values.
func (l *load) requests() (all []encoded, err error) {
	for i := range l.keys {
		request := &pb.RateLimitRequest{Domain: "load"}
		for j := range l.descriptors {
			request.Descriptors = append(request.Descriptors, &common.RateLimitDescriptor{
				Entries: []*common.RateLimitDescriptor_Entry{{Key: fmt.Sprint("key", j), Value: fmt.Sprint("value", i)}},
			})
		}
		one, err := proto.Marshal(request)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (l *load) run(ctx context.Context) (Counts, error) {
	requests, err := l.requests()
	if err != nil {
		return Counts{}, err
	}
	connections := make([]*grpc.ClientConn, l.connections)
	for i := range connections {
		// Each needs a pool of its own, or else they share a connection.
		connections[i], err = grpc.NewClient(l.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})))
		if err != nil {
			return Counts{}, err
		}
		defer func() { _ = connections[i].Close() }()
	}
	if l.warmup > 0 {
		l.ask(ctx, connections, requests, l.warmup)
	}
	return l.ask(ctx, connections, requests, l.duration), nil
}

// patience is how long a request waits. Envoy tells the service of its own, too.
const patience = 5 * time.Second

// ask asks for a time.
func (l *load) ask(ctx context.Context, connections []*grpc.ClientConn, requests []encoded, d time.Duration) (counts Counts) {
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	var mu sync.Mutex
	var times []time.Duration
	var all sync.WaitGroup
	begun := time.Now()
	for i := range l.callers {
		all.Go(func() {
			connection := connections[i%len(connections)]
			random := rand.New(rand.NewPCG(uint64(i), uint64(begun.UnixNano())))
			var own []time.Duration
			var seen Counts
			var answer encoded
			for done := false; !done; done = over.Load() {
				start := time.Now()
				bounded, cancel := context.WithTimeout(ctx, patience)
				err := connection.Invoke(bounded, pb.RateLimitService_ShouldRateLimit_FullMethodName, &requests[random.IntN(len(requests))], &answer)
				cancel()
				own = append(own, time.Since(start))
				switch {
				case err != nil:
					seen.Errors++
				case isOver(answer):
					seen.Denied++
				default:
					seen.Admitted++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			counts.Admitted, counts.Denied, counts.Errors = counts.Admitted+seen.Admitted, counts.Denied+seen.Denied, counts.Errors+seen.Errors
		})
	}
	all.Wait()
	counts.Elapsed = time.Since(begun)
	slices.Sort(times)
	counts.P50, counts.P99 = times[len(times)/2], times[len(times)*99/100]
	return counts
}

// isOver reports whether an encoded answer begins with the overall code OVER_LIMIT.
func isOver(answer encoded) bool {
	return len(answer) > 1 && answer[0] == 1<<3 && answer[1] == byte(pb.RateLimitResponse_OVER_LIMIT)
}
