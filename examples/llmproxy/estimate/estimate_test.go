package estimate_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/examples/llmproxy/estimate"
)

func learn(e *estimate.Estimate, times, declared, actual int) {
	for range times {
		e.Learn("parrot", declared, actual)
	}
}

func TestWhatIsDeclaredCountsUntilEnoughIsKnown(t *testing.T) {
	e := estimate.New(estimate.Options{})
	learn(e, 19, 1000, 100)
	if got := e.Cost("parrot", 1000); got != 1000 {
		t.Errorf("after 19 requests: %d", got)
	}
	learn(e, 1, 1000, 100)
	if got := e.Cost("parrot", 1000); got != 100 {
		t.Errorf("after 20 requests: %d", got)
	}
	if got := e.Cost("eagle", 1000); got != 1000 {
		t.Errorf("of another model: %d", got)
	}
	learn(e, 100, 0, 5) // which teaches nothing
	if got := e.Cost("parrot", 250); got != 25 {
		t.Errorf("of another declared cost: %d", got)
	}
}

func TestMostRequestsStayWithinTheEstimate(t *testing.T) {
	e := estimate.New(estimate.Options{})
	for range 50 {
		learn(e, 89, 1000, 200)
		learn(e, 11, 1000, 900)
	}
	if got := e.Cost("parrot", 1000); got != 900 {
		t.Errorf("where 11 of 100 need 900: %d", got)
	}
	half := estimate.New(estimate.Options{Share: 0.5})
	for range 50 {
		learn(half, 6, 1000, 200)
		learn(half, 4, 1000, 900)
	}
	if got := half.Cost("parrot", 1000); got != 200 {
		t.Errorf("where 4 of 10 need 900, and half have to stay within: %d", got)
	}
}

func TestWhatIsOldIsForgotten(t *testing.T) {
	e := estimate.New(estimate.Options{})
	learn(e, 5000, 1000, 1000)
	learn(e, 600, 1000, 100) // the older ones count an eighth by now
	if got := e.Cost("parrot", 1000); got != 1000 {
		t.Errorf("while an eighth were longer: %d", got)
	}
	learn(e, 200, 1000, 100)
	if got := e.Cost("parrot", 1000); got != 100 {
		t.Errorf("when a sixteenth were longer: %d", got)
	}
	learn(e, 100_000, 1000, 100) // the weights stay finite
	if got := e.Cost("parrot", 1000); got != 100 {
		t.Errorf("after a long time: %d", got)
	}
}

func TestAnEstimateIsNeitherMoreThanDeclaredNorLessThanLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.IntRange(0, 50).Draw(t, "least")
		e := estimate.New(estimate.Options{Least: least})
		for range rapid.IntRange(0, 60).Draw(t, "requests") {
			e.Learn("parrot", rapid.IntRange(-1, 1000).Draw(t, "declared"), rapid.IntRange(-1, 3000).Draw(t, "actual"))
		}
		declared := rapid.IntRange(0, 100_000).Draw(t, "asked")
		if got := e.Cost("parrot", declared); got > declared || got < min(declared, max(1, least)) {
			t.Fatalf("%d of %d declared, and at least %d", got, declared, least)
		}
	})
}

func TestModelsAreBounded(t *testing.T) {
	e := estimate.New(estimate.Options{})
	learn(e, 20, 1000, 100)
	for i := range estimate.MostModels - 1 {
		e.Learn(strconv.Itoa(i), 1, 1)
	}
	learn(e, 1, 1000, 100) // it is the latest now
	e.Learn("one more", 1, 1)
	if got := e.Cost("parrot", 1000); got != 100 {
		t.Errorf("the one that was seen last is forgotten: %d", got)
	}
	for i := range estimate.MostModels {
		e.Learn(fmt.Sprint("other ", i), 1, 1)
	}
	if got := e.Cost("parrot", 1000); got != 1000 {
		t.Errorf("the one that was seen longest ago is known: %d", got)
	}
}

func TestManyLearnAtOnce(t *testing.T) {
	e := estimate.New(estimate.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				e.Learn("parrot", 10, 5)
				e.Cost("parrot", 10)
			}
		})
	}
	all.Wait()
	if got := e.Cost("parrot", 10); got != 5 {
		t.Error(got)
	}
}

func TestOptionsWithoutSensePanic(t *testing.T) {
	for _, options := range []estimate.Options{{Share: -1}, {Share: 1}, {Share: 2}, {Least: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is no panic", options)
				}
			}()
			estimate.New(options)
		}()
	}
}
