// This file is built into the reference server of Connect's conformance suite.

package referenceserver

import (
	"os"
	"time"

	"connectrpc.com/connect"

	connectratelimit "github.com/weir-go/ratelimit/connect"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// limits returns the interceptor under test, for calls and for the messages of streams.
func limits() connect.Interceptor {
	var limit core.Quota
	if err := limit.UnmarshalText([]byte(os.Getenv("CONFORMANCE_LIMIT"))); err != nil {
		panic(err)
	}
	policies := []guard.Policy{
		{Limit: limit, By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)}, {Limit: core.Concurrent(100_000, time.Minute), By: keyfuncs.Global},
	}
	limiter := core.New(core.NewMemory())
	return connectratelimit.New(guard.Must(guard.New(limiter, guard.Options{}, policies...)), guard.Must(guard.New(limiter, guard.Options{}, policies[0])))
}
