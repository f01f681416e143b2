// Package estimate learns the real costs of requests, beside their declared costs: the tokens of an answer, beside the
// max_tokens that were asked for. A limit that reserves the declared cost admits a fraction of the requests that it could, since most
// answers are shorter.
//
// It learns in this process, for each model or other cause of the cost, and forgets old requests. An estimate is for the
// reservation alone: settle every request at its real cost, and no client gains by a false declaration.
package estimate

import (
	"math"
	"sync"
)

const (
	// steps is how finely ratios of real to declared cost are told apart: in steps of a fiftieth of the declared cost.
	steps = 50
	// enough is how many requests have to be seen before the estimate is used.
	enough = 20
	// memory is after how many requests one counts half.
	memory = 200
	// MostModels bounds how many models an Estimate knows.
	MostModels = 1000
)

// Options say how an [Estimate] estimates. The zero value is ready to use.
type Options struct {
	// Share is which share of the requests cost no more than is estimated, as far as the latest ones tell. The default
	// is 0.9. It is less than 1.
	Share float64
	// Least is the least that is estimated, as far as the declared cost is no less: the tokens of a prompt, for instance.
	// The default is 1.
	Least int
}

// Estimate estimates costs by the requests that it has learned of. [New] makes one. Many goroutines may use it at once.
type Estimate struct {
	share float64
	least int

	mu     sync.Mutex
	models map[string]*ratios
	turn   int // counts the lessons, so that models have an age
}

// ratios are how often each ratio of real to declared cost was seen, of late.
type ratios struct {
	weights [steps]float64 // of the ratios up to (i+1)/steps
	sum     float64
	next    float64 // the weight of the next one: the older ones fade beside it
	seen    int
	turn    int // when it was last learned
}

// The defaults of Options.
const (
	defaultShare = 0.9
	defaultLeast = 1
)

// New returns an Estimate that has learned nothing. A Share that is negative or not less than 1, and a negative Least,
// panic.
func New(options Options) *Estimate {
	e := &Estimate{share: options.Share, least: options.Least, models: make(map[string]*ratios)}
	if e.share == 0 {
		e.share = defaultShare
	}
	if e.least == 0 {
		e.least = defaultLeast
	}
	if !(e.share > 0 && e.share < 1) || e.least < 0 {
		panic("estimate: Share is not between 0 and 1, or Least is negative")
	}
	return e
}

// Cost returns the cost to reserve for a request of a model that declares a cost: the cost that the Share of the latest requests of
// the model have stayed within, in proportion to their declarations, rounded up. It is no more than declared, and
// no less than Least unless declared is. Until 20 requests of the model were seen, it is declared.
func (e *Estimate) Cost(model string, declared int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.models[model]
	if r == nil || r.seen < enough {
		return declared
	}
	cost := int(math.Ceil(float64(declared) * r.within(e.share)))
	return min(declared, max(e.least, cost))
}

// Learn notes the real cost of a request of a model, and the declared one. A request that has cost more than
// it had declared counts as one that has cost as much. One that has declared nothing teaches nothing. Of more than
// [MostModels] models, the one that was seen longest ago is forgotten, and starts anew.
func (e *Estimate) Learn(model string, declared, actual int) {
	if declared <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.models[model]
	if r == nil {
		e.makeRoom()
		r = &ratios{next: 1}
		e.models[model] = r
	}
	e.turn++
	r.turn = e.turn
	r.learn(min(1, max(0, float64(actual)/float64(declared))))
}

// makeRoom forgets the model that was seen longest ago, if there are as many as there may be.
func (e *Estimate) makeRoom() {
	if len(e.models) < MostModels {
		return
	}
	oldest, turn := "", math.MaxInt
	for model, r := range e.models {
		if r.turn < turn {
			oldest, turn = model, r.turn
		}
	}
	delete(e.models, oldest)
}

// fade is by how much the next request counts more than the one before it.
var fade = math.Exp2(1.0 / memory)

// learn notes a ratio.
func (r *ratios) learn(ratio float64) {
	r.weights[max(0, int(math.Ceil(ratio*steps))-1)] += r.next
	r.sum += r.next
	r.seen = min(r.seen+1, enough)
	if r.next *= fade; r.next > 1e100 { // long before it is infinite
		for i := range r.weights {
			r.weights[i] /= r.next
		}
		r.sum, r.next = r.sum/r.next, 1
	}
}

// within returns the ratio that a share of the requests have stayed within.
func (r *ratios) within(share float64) float64 {
	var sum float64
	for i, weight := range r.weights {
		if sum += weight; sum >= share*r.sum {
			return float64(i+1) / steps
		}
	}
	return 1
}
