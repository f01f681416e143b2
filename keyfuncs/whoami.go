package keyfuncs

import (
	"bytes"
	"fmt"
	"net/http"
)

// told are the header fields in which proxies name the client of a request.
var told = [...]string{
	"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Fastly-Client-Ip", "Fly-Client-Ip",
	"X-Client-Ip", "X-Cluster-Client-Ip", "X-Azure-Clientip", "X-Envoy-External-Address",
}

// WhoAmI returns a handler that shows the key that by reads from a request, and the sources of it: the address of the TCP
// peer, and each line of the header fields in which proxies tell an address. It answers in plain text:
//
//	key: ip:203.0.113.9
//	peer: 10.0.0.5:41234
//	X-Forwarded-For: 192.0.2.1, 203.0.113.9
//
// A request without a key shows its substitute, as in the middleware: [Anonymous]. If by fails, "error:" with its message
// stands in place of the key. The answer is 200 in any case, and no cache keeps it.
//
// Use it to test the proxies in front of a server. Send requests through all proxies, with forged headers: the key has to
// be your own address. Every visitor can see the proxy's address, so mount it where only you get to, or for as long as
// you test. A Func that reads a framework's own context needs to run behind that framework's middleware: there, look at
// the Key of the outcomes instead.
//
// WhoAmI panics if by is nil. The handler is safe for concurrent use.
func WhoAmI(by Func) http.Handler {
	by = checked("WhoAmI", []Func{by})[0]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		key, err := by(r)
		if missing(key, err) {
			key, err = Anonymous(r)
		}
		var answer bytes.Buffer
		if err != nil {
			fmt.Fprintf(&answer, "error: %v\n", err)
		} else {
			fmt.Fprintf(&answer, "key: %s\n", key)
		}
		fmt.Fprintf(&answer, "peer: %s\n", r.RemoteAddr)
		for _, name := range told {
			for _, line := range r.Header[name] {
				fmt.Fprintf(&answer, "%s: %s\n", name, line)
			}
		}
		_, _ = answer.WriteTo(w) // a client that has gone away misses nothing
	})
}
