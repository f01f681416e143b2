// Package checked holds a model of the limit "at most n at once", and a search through all that can happen in it.
// It has tests only.
//
// The model has a few holders in two processes, a store with one key, and a network between them. A state is what all of
// them remember; an action leads from one state to the next. The search visits every state that can be reached within a
// few ticks of the clock, and checks the laws on every step.
//
// # What the model leaves out
//
//   - A lease is two to four ticks, and its margin is one tick instead of 1 %. A local clock may miss one tick in a lease.
//   - A lost message is a message that never arrives, and a paused process is one that does nothing for a while. Neither
//     needs an action of its own: the search also visits the states in which nothing happens but time.
//   - A holder acquires once. Who acquires again is another member of the sorted set, and so another holder.
//   - There is one key, and a holder has one place.
//
// # What holds, and what does not
//
// laws_test.go has the laws, and search_test.go says in which world each of them holds. The tests
// ask for a counterexample of each law that does not, so that nobody claims more than is true:
//
//   - A failover forgets holders, so up to n more work at once. Each further failover within the lease adds n.
//   - A clock of the store that steps forward ends leases early, with the same effect. One that steps back makes them longer.
//   - Tokens go back when a failover loses everything and the clock is then behind the last token: because the clock
//     was stepped back, or because the failover took less time than the tokens were ahead.
//   - A resource refuses a late holder only from when it has seen the token of the next one.
//   - Where n is greater than 1, a resource that remembers the largest token refuses holders that still hold their places.
//
// faults, in world_test.go, are mistakes that the model can make on purpose. The search finds each of them.
package checked
