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

// WithUser is WithKey of the name "user" for [keyfuncs.User] of a function: the user whom your authentication has verified, or "".
func WithUser(id func(*http.Request) string) Option { return WithKey("user", keyfuncs.User(id)) }

// WithPlan says which plan a request is of, for limits by plan. It panics if plan is nil.
func WithPlan(plan func(*http.Request) string) Option {
	require("WithPlan", "plan", plan == nil)
	return func(o *options) {
		o.names.plan = func(r *http.Request) string {
			given.Prepare(r)
			return plan(r)
		}
	}
}

// WithCost gives a name to a function that says how many units a request takes: see [guard.Policy]. It panics on a name that is none,
// and if cost is nil.
func WithCost(name string, cost func(*http.Request) int) Option {
	require("WithCost", name, cost == nil)
	return func(o *options) { o.names.costs[name] = cost }
}

// WithSettle gives a name to a function that says what a request has really cost, or how many strikes it was: see [guard.Policy]. It
// panics on a name that is none, and if settle is nil.
func WithSettle(name string, settle func(*http.Request, guard.Served) int) Option {
	require("WithSettle", name, settle == nil)
	return func(o *options) { o.names.served[name] = settle }
}

// WithEvery is the time between the end of one reading of the source and the beginning of the next, give or take a tenth. A reading
// that takes longer than that, and than five seconds, has failed. The default, which 0 is too, is five seconds. Less than 0 panics.
func WithEvery(every time.Duration) Option {
	if every < 0 {
		panic(fmt.Sprintf("policies: WithEvery: %v is less than 0", every))
	}
	return func(o *options) { o.every = every }
}

// WithOnError is told of each reading of the source that has failed, after which the set stays as it was. It is called on the goroutine
// that reads, and the next reading waits for it. A panic of it is logged. The default, which nil is too, logs at level warn when readings
// begin to fail, and when the reason changes: see [WithLogger].
func WithOnError(tell func(error)) Option { return func(o *options) { o.onError = tell } }

// WithOnChange is told what changes when another document has taken the place of one, as weir plan says it. What it is told is in force
// already. The changes are none if the text is another one that says the same. It is called on the goroutine that reads, and the next reading
// waits for it. A panic of it is logged. The default is that nobody is told but the log: see [WithLogger]. It panics if tell is nil.
func WithOnChange(tell func(Changes)) Option {
	if tell == nil {
		panic("policies: WithOnChange: the function is nil")
	}
	return func(o *options) { o.onChange = tell }
}

// WithLogger is where [Watch] logs: at level info one line for each document that has taken the place of another one, with what changes, and
// at level warn that readings fail, if [WithOnError] is not told. The default is [slog.Default] at the time of the report. It panics if logger
// is nil.
func WithLogger(logger *slog.Logger) Option {
	if logger == nil {
		panic("policies: WithLogger needs a logger: use slog.New(slog.DiscardHandler) for none")
	}
	return func(o *options) { o.logger = logger }
}

// WithStart is in force until the source has been read for the first time. With it, [Watch] returns no error when the source cannot be
// read at the start.
func WithStart(d *Document) Option { return func(o *options) { o.start = d } }

func require(option, name string, missing bool) {
	if !isName(name) {
		panic(fmt.Sprintf("policies: %s: %q is no name of letters, digits, - and _", option, name))
	}
	if missing {
		panic(fmt.Sprintf("policies: %s: the function of %q is nil", option, name))
	}
}
