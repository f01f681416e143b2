package estimate_test

import (
	"fmt"

	"github.com/weir-go/ratelimit/examples/llmproxy/estimate"
)

func ExampleEstimate() {
	answers := estimate.New(estimate.Options{})
	fmt.Println("at first:", answers.Cost("parrot-large", 1000))
	for range 100 { // when each request is settled
		answers.Learn("parrot-large", 1000, 180)
	}
	fmt.Println("then:", answers.Cost("parrot-large", 1000))
	// Output:
	// at first: 1000
	// then: 180
}
