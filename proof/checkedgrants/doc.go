// Package checkedgrants holds a model of units that are charged ahead of time and spent later, as [core.Lease] does it, and a search
// through all that can happen in it. It has tests only.
//
// The model has two processes, a store with one key, and a network between them. A state is what all of them remember, with all
// that was charged and spent so far; an action leads from one state to the next. The search visits every state that can be
// reached within a few ticks of the clock, and checks on each the bound that the documentation states.
//
// # What the model leaves out
//
//   - A grant lasts two or three ticks, and the margin for clocks of different speeds is one tick, which a process's clock may miss.
//   - A paused process is one that does nothing for a while: the search also visits the states in which only time passes. A lost
//     request is one that never arrives.
//   - The store counts what was charged, and takes a settlement as if the rest had never been charged: no store gives back more.
//   - A process has one grant, and asks for another. Two grants of one process are two processes.
//
// # What holds, and what does not
//
// model_test.go has the worlds and their laws, and search_test.go the search. faults are mistakes that the model can make on purpose; the search
// finds each of them.
//
// [core.Lease]: https://pkg.go.dev/github.com/weir-go/ratelimit/core#Lease
package checkedgrants
