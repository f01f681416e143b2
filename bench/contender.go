package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ask asks a limiter whether one more unit may pass under a key. Many goroutines
// ask at once.
type Ask func(ctx context.Context, key string) (admitted bool, err error)

// quota is the limit that every contender has to enforce: n at once, and then n in each
// period, evenly or window by window as its algorithm has it.
type quota struct {
	n   int
	per time.Duration
}

// contender is a limiter that is compared, as its documentation configures it.
type contender struct {
	name      string
	algorithm string
	note      string // a caution for comparisons with the others
	own       bool   // it is this project's
	framework string // where it serves HTTP, if it does
	idle      bool   // it is there to compare with, and not worth a bar in a plot
	silent    bool   // it does not tell when it decides without Redis
	open      func(s *setup, q quota) (Ask, error)
}

// setup hands a contender its clients and servers, and ends these afterwards.
type setup struct {
	address string // of the redis-server
	redis   *redis.Client
	serves  string // the address where the contender serves HTTP or gRPC, if it does
	process int    // that of the contender, if it is one of its own
	ends    []func() error

	failedOpen atomic.Int64 // requests that were let through since the store failed
}

// client returns the contender's client of the server. Every contender has one of
// its own, and all have the same options: the defaults of go-redis, except
// that a charge is not repeated after a timeout, and that deadlines hold.
func (s *setup) client() *redis.Client {
	if s.redis == nil {
		s.redis = redis.NewClient(&redis.Options{
			Addr:                  s.address,
			MaxRetries:            -1,
			ContextTimeoutEnabled: true,
		})
		s.atEnd(s.redis.Close)
	}
	return s.redis
}

// atEnd has a function called when the contender is done; the last comes first.
func (s *setup) atEnd(end func() error) { s.ends = append(s.ends, end) }

func (s *setup) close() error {
	var failures []error
	for _, end := range slices.Backward(s.ends) {
		failures = append(failures, end())
	}
	s.ends = nil
	return errors.Join(failures...)
}

// serve serves a handler on a free port of this machine until the setup ends.
func (s *setup) serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	s.atEnd(func() error {
		err := server.Close()
		if failure := <-ended; !errors.Is(failure, http.ErrServerClosed) {
			err = errors.Join(err, failure)
		}
		return err
	})
	s.serves = listener.Addr().String()
	return nil
}
