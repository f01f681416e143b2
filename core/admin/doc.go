// Package admin lists the keys of a limiter, and says in words how they stand.
//
// It is for consoles and command lines, not for requests.
package admin
