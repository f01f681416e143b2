package core

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"weak"
)

// definition is what makes a limit the one that it is.
type definition struct {
	algorithm algorithm
	name      string
	capacity  int
	rate      Rate // of a window: capacity events per window
	own       bool // a limit of this package's, whose name may begin with reserved
}

// reserved is what the names of this package's own limits begin with.
const reserved = "weir-"

// rule is a definition with all that follows from it. There is one for all equal
// definitions, so a limit is copied and compared as a pointer. It never changes.
type rule struct {
	definition

	problem error // why it cannot be asked
	units   units
	rulings [2]ruling // of its own states, and of those of its shadow
	words   words
}

// noRule is that of the zero Limit.
var noRule = newRule(definition{})

// rules are those that are in use.
var rules struct {
	mu sync.RWMutex
	of map[definition]weak.Pointer[rule]
}

// known returns the limit's rule, where it may be the zero Limit.
func (l Limit) known() *rule {
	if l.rule == nil {
		return noRule
	}
	return l.rule
}

// ruleOf returns the rule of a definition, or nil for the zero one. It is kept as long
// as anybody uses it.
func ruleOf(d definition) *rule {
	if d == (definition{}) {
		return nil
	}
	rules.mu.RLock()
	r := rules.of[d].Value()
	rules.mu.RUnlock()
	if r != nil {
		return r
	}
	d.name = strings.Clone(d.name) // it may be a part of a whole request
	r = newRule(d)
	rules.mu.Lock()
	defer rules.mu.Unlock()
	if first := rules.of[d].Value(); first != nil {
		return first
	}
	if rules.of == nil {
		rules.of = make(map[definition]weak.Pointer[rule])
	}
	rules.of[d] = weak.Make(r)
	runtime.AddCleanup(r, forgetRule, d)
	return r
}

// ownNamed is Named for a limit of this package's own.
func (l Limit) ownNamed(name string) Limit {
	d := l.known().definition
	d.name, d.own = name, true
	return Limit{ruleOf(d)}
}

// forgetRule forgets the rule of a definition, unless it has got another one.
func forgetRule(d definition) {
	rules.mu.Lock()
	defer rules.mu.Unlock()
	if rules.of[d].Value() == nil {
		delete(rules.of, d)
	}
}

func newRule(d definition) *rule {
	r := &rule{definition: d}
	r.units, r.problem = d.workOut()
	namesake := r
	if d.name != "" && d != (definition{algorithm: d.algorithm, name: d.name}) {
		namesake = ruleOf(definition{algorithm: d.algorithm, name: d.name})
	}
	for i := range r.rulings {
		r.rulings[i] = ruling{limit: Limit{r}, shadow: i == 1, identity: &namesake.rulings[i]}
	}
	if r.problem == nil {
		r.words = newWords(r)
	}
	return r
}

// workOut returns the whole numbers in which a limit counts, or the reason why it
// cannot be asked.
func (d *definition) workOut() (units, error) {
	if d.algorithm == none {
		return units{}, errors.New("core: the zero Limit has no algorithm: use a constructor such as core.Leaky, or core.Unlimited")
	}
	if d.capacity < 1 {
		return units{}, fmt.Errorf("core: %s: capacity %d is less than 1", d, d.capacity)
	}
	if d.rate.Events < 1 {
		return units{}, fmt.Errorf("core: %s: rate of %d events is less than 1", d, d.rate.Events)
	}
	if d.rate.Period <= 0 {
		return units{}, fmt.Errorf("core: %s: period %v is not positive", d, d.rate.Period)
	}
	if err := checkName(d.name); err != nil {
		return units{}, err
	}
	if strings.HasPrefix(d.name, reserved) && !d.own {
		return units{}, fmt.Errorf("core: limit name %q begins with %q, as this package's own do: choose another name", d.name, reserved)
	}
	u, err := d.algorithm.arithmetic().units(d.capacity, d.rate)
	if err != nil {
		return units{}, fmt.Errorf("core: %s: %w", d, err)
	}
	return u, nil
}
