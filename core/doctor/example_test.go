package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/doctor"
)

// Before going live, or in the log at every start: what is wrong, and what to do.
func ExampleExamine() {
	limiter, err := core.Open("memory:") // or "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	report := doctor.Examine(context.Background(), limiter)
	fmt.Print(report)
	fmt.Println("problems:", report.Err())
	// Output:
	// this process
	//   notice    store        limits are in this process's memory: 0 keys, at most 1048576
	//                          Every process counts for itself, and a restart forgets.
	//                          -> For more than one process, use Redis: core.Open("redis://…").
	// problems: <nil>
}
