package asynqratelimit_test //nolint:testableexamples // the example runs until it is stopped

import (
	"context"
	"encoding/json"
	"log"
	"time"

	"github.com/hibiken/asynq"

	asynqratelimit "github.com/weir-go/ratelimit/asynq"
	"github.com/weir-go/ratelimit/core"
)

// Shipment is the payload of the tasks of type "ship:order".
type Shipment struct{ Account, Order string }

// A partner takes five calls a second for each account, from all servers together, and two exports run at once.
func Example() {
	limiter, err := core.Open("redis://localhost:6379")
	if err != nil {
		log.Fatal(err)
	}
	mux := asynq.NewServeMux()
	mux.Use(asynqratelimit.New(limiter, asynqratelimit.Options{FailClosed: true},
		asynqratelimit.Policy{
			Limit: core.Leaky(1, core.PerSecond(5)).Named("shipments"),
			By:    asynqratelimit.Payload("ship:", func(s Shipment) string { return s.Account }),
		},
		asynqratelimit.Policy{
			Limit: core.Concurrent(2, 30*time.Second).Named("exports"),
			By:    asynqratelimit.Payload("export:", func(struct{}) string { return "" }),
		},
	))
	mux.HandleFunc("ship:", func(_ context.Context, task *asynq.Task) error {
		var shipment Shipment
		return json.Unmarshal(task.Payload(), &shipment) // and ship it
	})
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:6379"}, asynqratelimit.Config(asynq.Config{Concurrency: 50}))
	if err := server.Run(mux); err != nil {
		log.Fatal(err)
	}
}
