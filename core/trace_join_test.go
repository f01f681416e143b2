package core

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

// panicking returns a trace with one function, which counts its calls and panics.
func panicking(field int, calls *int) Trace {
	var t Trace
	f := reflect.ValueOf(&t).Elem().Field(field)
	f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
		*calls++
		panic("a hook")
	}))
	return t
}

// Each function of a trace is joined with that of another one, and contained: a function that is added to Trace has to be,
// too.
func TestEveryFunctionOfATraceIsContained(t *testing.T) {
	fields := reflect.TypeFor[Trace]()
	for i := range fields.NumField() {
		t.Run(fields.Field(i).Name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			first, second := 0, 0
			joined := panicking(i, &first).and(panicking(i, &second)).contained(func() *slog.Logger { return logger })
			f := reflect.ValueOf(joined).Field(i)
			if f.IsNil() {
				t.Fatal("the function is lost")
			}
			arguments := make([]reflect.Value, f.Type().NumIn())
			for n := range arguments {
				arguments[n] = reflect.Zero(f.Type().In(n))
			}
			for range 3 {
				f.Call(arguments)
			}
			if first != 3 || second != 3 {
				t.Errorf("called %d and %d times, want 3 each", first, second)
			}
			if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "hook="+fields.Field(i).Name) {
				t.Errorf("logged %q, want one line with the name", text)
			}
			if none := reflect.ValueOf((Trace{}).contained(slog.Default)).Field(i); !none.IsNil() {
				t.Error("a function that is not set is called")
			}
		})
	}
}

// What tells of decisions stands in the way of no check that nobody wants to be told of.
func TestNobodyIsInTheWayOfAPlainCheck(t *testing.T) {
	store := Lease(NewMemory(), Tolerance{Over: 0.1})
	if l := New(store, WithTrace(Trace{Wait: func(Wait) {}})); l.decider != store || l.leases == nil {
		t.Error("a limiter whose decisions are told to nobody does not ask its store")
	}
	if l := New(store, WithTrace(Trace{Decided: func(Decided) {}})); l.decider == store || l.leases != nil {
		t.Error("a limiter does not tell of what a lease has decided")
	}
}
