// Package admin lists the keys of a limiter, and describes their states in words. It lists banned keys, balances, and the holders
// of places of a [core.Concurrent] limit, and takes places away.
//
// It is for consoles and command lines, not for requests.
package admin
