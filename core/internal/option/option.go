// Package option says which functions take which options: an option has a change for each kind of thing that they make.
package option

import (
	"fmt"
	"strings"
)

// Option changes things of some kinds. The zero Option changes nothing, and suits everything.
type Option struct {
	name    string // of the function that makes it
	changes []any  // each is a func(*T) for another kind T
}

// New returns the option that the function of a name makes. Each change is a func(*T), for another kind T each.
func New(name string, changes ...any) Option { return Option{name, changes} }

// Name returns the name of the function that makes the option, such as "WithClock".
func (o *Option) Name() string { return o.name }

// Changes reports whether an option changes things of kind T.
func Changes[T any](o *Option) bool { return changeOf[T](o) != nil }

// Suits reports whether an option changes things of kind T, or is the zero Option.
func Suits[T any](o *Option) bool { return o.name == "" || Changes[T](o) }

// Apply applies an option to something that a function makes. It panics if the option does not suit things of kind T, and
// names those of takers that it suits.
func Apply[T any](o *Option, function string, takers []Taker, made *T) {
	if change := changeOf[T](o); change != nil {
		change(made)
	} else if o.name != "" {
		panic(fmt.Sprintf("core: %s is no option of %s: it suits %s", o.name, function, o.takers(takers)))
	}
}

func changeOf[T any](o *Option) func(*T) {
	for _, change := range o.changes {
		if own, ok := change.(func(*T)); ok {
			return own
		}
	}
	return nil
}

// Taker is a function that takes options.
type Taker struct {
	name  string
	takes func(*Option) bool
}

// TakerOf returns the taker of a name, which makes things of kind T.
func TakerOf[T any](name string) Taker { return Taker{name, Changes[T]} }

// takers names the functions that take the option.
func (o *Option) takers(all []Taker) string {
	var names []string
	for _, taker := range all {
		if taker.takes(o) {
			names = append(names, taker.name)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}
