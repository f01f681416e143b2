package policies

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Options give the program's functions to a [Set], and say how [Watch] follows its source. The zero value is ready to use for a
// document that names no function. A name is of letters, digits, - and _. [Watch] and [Document.Set] panic on another name, on a
// nil function of a name, and on an Every of less than 0.
type Options struct {
	// Keys are key functions by name, for keys such as "user or ip": the user is keyfuncs.User(id) under the name "user".
	Keys map[string]keyfuncs.Func
	// Costs are functions by name that return how many units a request takes: see [guard.Policy].
	Costs map[string]func(*http.Request) int
	// Settle are functions by name that return the real cost of a request, or its number of strikes: see [guard.Policy].
	Settle map[string]func(*http.Request, guard.Served) int
	// Plan returns the plan of a request, for limits by plan.
	Plan func(*http.Request) string

	// AnyCase says that the router takes /Login for /login, as the matchers of Caddy, Fiber and servers on Windows do: the patterns of
	// policies then match paths in both cases of letters. The default is false: they match as [http.ServeMux] does.
	AnyCase bool

	// Every is the time between the end of one reading of the source and the beginning of the next, give or take a
	// tenth. A reading that takes longer than that, and than five seconds, has failed. The default, 0, is five
	// seconds.
	Every time.Duration
	// Start is in force until the source has been read for the first time. With it, [Watch] returns no error when the source
	// cannot be read at the start. The default is nil.
	Start *Document
	// OnChange is called with the changes, as weir plan prints them, when a new document has come into force. The changes
	// are empty if only the text differs. It is called on the goroutine that reads the source, and the next reading waits
	// for it. A panic of it is logged. The default is nil: changes only go to the log.
	OnChange func(Changes)
	// OnError is called with the error of each failed reading of the source, after which the set stays as it was. It is
	// called on the goroutine that reads the source, and the next reading waits for it. A panic of it is logged. The
	// default, nil, logs at level warn when readings begin to fail, and when the reason changes.
	OnError func(error)
	// Logger gets one line at level info for each new document in force, with its changes, and one at level warn for failed
	// readings, unless OnError is set. The default, nil, is [slog.Default] at the time of the report.
	Logger *slog.Logger
}

// Needs are names of functions that a document needs from the program.
type Needs struct {
	// Keys are names in keys, of Options.Keys.
	Keys []string `json:"keys,omitempty"`
	// Costs are names of Options.Costs.
	Costs []string `json:"costs,omitempty"`
	// Settle are names of Options.Settle.
	Settle []string `json:"settle,omitempty"`
	// Plan says that there are plans, so that Options.Plan is needed.
	Plan bool `json:"plan,omitempty"`
}

// checked returns a copy of the options. It panics on a mistake in them.
func (o Options) checked() Options {
	if o.Every < 0 {
		panic(fmt.Sprintf("policies: Options.Every is %v, which is less than 0", o.Every))
	}
	for name, by := range o.Keys {
		require("Keys", name, by == nil)
	}
	for name, cost := range o.Costs {
		require("Costs", name, cost == nil)
	}
	for name, settle := range o.Settle {
		require("Settle", name, settle == nil)
	}
	o.Keys, o.Costs, o.Settle = maps.Clone(o.Keys), maps.Clone(o.Costs), maps.Clone(o.Settle)
	if plan := o.Plan; plan != nil {
		o.Plan = func(r *http.Request) string {
			given.Prepare(r)
			return plan(r)
		}
	}
	if o.OnChange == nil {
		o.OnChange = func(Changes) {}
	}
	return o
}

func require(field, name string, missing bool) {
	if !isName(name) {
		panic(fmt.Sprintf("policies: Options.%s: %q is no name of letters, digits, - and _", field, name))
	}
	if missing {
		panic(fmt.Sprintf("policies: Options.%s: the function of %q is nil", field, name))
	}
}
