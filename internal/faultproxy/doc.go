// Package faultproxy stands between a client and a server of a test, and passes
// bytes on badly: late, slowly, not at all, changed or cut off, in ways that a test
// turns on and off while connections are open.
package faultproxy
