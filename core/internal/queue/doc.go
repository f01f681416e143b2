// Package queue says who waits, in which order, and until when.
//
// [Queues] are those who wait until they are granted something, first come, first served: a queue
// for each key, with a worker that asks for as many of them as it can. [Turns] are those who have
// been granted a turn and wait for it: who leaves lets the others move up.
//
// The keys of one queue never slow another one down, and a waiter who leaves costs the logarithm of
// those who stay. The package knows neither Redis nor limits: [Config] says what is asked.
package queue
