package main

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

// The request that is explained is the one that a server reads from a client that sends it.
func FuzzRequestOf(f *testing.F) {
	for _, text := range []string{
		"POST /orders", "/", "GET //a.test/x", "GET http://A.test:80/x?y=1", "PUT /a%2Fb/../c", "OPTIONS *", "GET /x#y", "GET http://[::1]:8080/", "get  /x ", "GET /ä",
	} {
		f.Add(text, "X-Api-Key: k")
	}
	f.Fuzz(func(t *testing.T, text, header string) {
		r, err := requestOf(t.Context(), text, "192.0.2.1", []string{header})
		if err != nil {
			return
		}
		if r.URL.IsAbs() || r.Host != "" { // what a client writes of them is another form of the same
			return
		}
		var sent bytes.Buffer
		if _, err := sent.WriteString(r.Method + " " + r.URL.RequestURI() + " HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		read, err := http.ReadRequest(bufio.NewReader(&sent))
		if err != nil {
			t.Fatalf("%q: no server reads it: %v", text, err)
		}
		if read.Method != r.Method || read.URL.Path != r.URL.Path || read.URL.EscapedPath() != r.URL.EscapedPath() {
			t.Errorf("%q is explained as %s %q, and read as %s %q", text, r.Method, r.URL.Path, read.Method, read.URL.Path)
		}
	})
}
