// Package admin lists the keys of a limiter, and says in words how they stand. It lists who is banned, and who has places of a
// limit that holds ([core.Concurrent]), and takes them away.
//
// It is for consoles and command lines, not for requests.
package admin
