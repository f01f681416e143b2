package policies

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Option gives the program's functions to a [Set], or says how [Watch] follows its source.
type Option func(*options)

type options struct {
	names   names
	every   time.Duration
	onError func(error)
	// onChange is never nil.
	onChange func(Changes)
	logger   *slog.Logger // nil is slog.Default at the time of the report
	start    *Document
}

// names are functions of the program that a document names.
type names struct {
	keys   map[string]keyfuncs.Func
	costs  map[string]func(*http.Request) int
	served map[string]func(*http.Request, guard.Served) int
	plan   func(*http.Request) string
	assume bool // that there is a function of every name
}

// Needs are names of functions that a document needs from the program.
type Needs struct {
	// Keys are names in keys, which [WithKey] gives a function to.
	Keys []string `json:"keys,omitempty"`
	// Costs are those of [WithCost].
	Costs []string `json:"costs,omitempty"`
	// Settle are those of [WithSettle].
	Settle []string `json:"settle,omitempty"`
	// Plan says that there are plans, so that [WithPlan] is needed.
	Plan bool `json:"plan,omitempty"`
}

func collect(all []Option) options {
	o := options{names: names{
		keys: make(map[string]keyfuncs.Func), costs: make(map[string]func(*http.Request) int),
		served: make(map[string]func(*http.Request, guard.Served) int),
	}, onChange: func(Changes) {}}
	for _, option := range all {
		option(&o)
	}
	return o
}

// WithKey gives a name to a key function, for keys such as "user or ip". A name is of letters, digits, - and _. It panics on another
// one, and if by is nil.
func WithKey(name string, by keyfuncs.Func) Option {
	require("WithKey", name, by == nil)
	return func(o *options) { o.names.keys[name] = by }
}

// WithUser is [WithKey] with the name "user" and a [keyfuncs.User] of the function: the verified user of the request, or
// "".
func WithUser(id func(*http.Request) string) Option { return WithKey("user", keyfuncs.User(id)) }

// WithPlan sets the function that returns the plan of a request, for limits by plan. It panics if plan is nil.
func WithPlan(plan func(*http.Request) string) Option {
	require("WithPlan", "plan", plan == nil)
	return func(o *options) {
		o.names.plan = func(r *http.Request) string {
			given.Prepare(r)
			return plan(r)
		}
	}
}

// WithCost gives a name to a function that returns how many units a request takes: see [guard.Policy]. It panics on an
// invalid name, and if cost is nil.
func WithCost(name string, cost func(*http.Request) int) Option {
	require("WithCost", name, cost == nil)
	return func(o *options) { o.names.costs[name] = cost }
}

// WithSettle gives a name to a function that returns the real cost of a request, or its number of strikes: see
// [guard.Policy]. It panics on an invalid name, and if settle is nil.
func WithSettle(name string, settle func(*http.Request, guard.Served) int) Option {
	require("WithSettle", name, settle == nil)
	return func(o *options) { o.names.served[name] = settle }
}

// WithEvery sets the time between the end of one reading of the source and the beginning of the next, give or take a
// tenth. A reading that takes longer than that, and than five seconds, has failed. The default, also for 0, is five
// seconds. Less than 0 panics.
func WithEvery(every time.Duration) Option {
	if every < 0 {
		panic(fmt.Sprintf("policies: WithEvery: %v is less than 0", every))
	}
	return func(o *options) { o.every = every }
}

// WithOnError sets a function that is called with the error of each failed reading of the source, after which the set
// stays as it was. It is called on the goroutine that reads the source, and the next reading waits for it. A panic of it
// is logged. The default, also for nil, logs at level warn when readings begin to fail, and when the reason changes: see
// [WithLogger].
func WithOnError(tell func(error)) Option { return func(o *options) { o.onError = tell } }

// WithOnChange sets a function that is called with the changes, as weir plan prints them, when a new document has come
// into force. The changes are empty if only the text differs. It is called on the goroutine that reads the source, and
// the next reading waits for it. A panic of it is logged. By default changes only go to the log: see [WithLogger].
// WithOnChange panics if tell is nil.
func WithOnChange(tell func(Changes)) Option {
	if tell == nil {
		panic("policies: WithOnChange: the function is nil")
	}
	return func(o *options) { o.onChange = tell }
}

// WithLogger sets the logger of [Watch]. It gets one line at level info for each new document in force, with its changes,
// and one at level warn for failed readings, unless [WithOnError] is set. The default is [slog.Default] at the time of
// the report. It panics if logger is nil.
func WithLogger(logger *slog.Logger) Option {
	if logger == nil {
		panic("policies: WithLogger needs a logger: use slog.New(slog.DiscardHandler) for none")
	}
	return func(o *options) { o.logger = logger }
}

// WithStart sets the document that is in force until the source has been read for the first time. With it, [Watch]
// returns no error when the source cannot be read at the start.
func WithStart(d *Document) Option { return func(o *options) { o.start = d } }

func require(option, name string, missing bool) {
	if !isName(name) {
		panic(fmt.Sprintf("policies: %s: %q is no name of letters, digits, - and _", option, name))
	}
	if missing {
		panic(fmt.Sprintf("policies: %s: the function of %q is nil", option, name))
	}
}
