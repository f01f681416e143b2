package guardtest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// peer is the address of every request, where a case does not say otherwise.
const peer = "203.0.113.9:4711"

// ask is a request of a client, with header lines as "Name: value".
func ask(method, path string, lines ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = peer
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// get sends GET /items/7 and returns all that the client sees of the answer.
func get(h http.Handler, lines ...string) string {
	return send(h, ask(http.MethodGet, "/items/7", lines...))
}

// send returns all that the client sees of the answer to a request: the status, the
// whole header in the order of the names, an empty line, and the body.
func send(h http.Handler, r *http.Request) string {
	return text(answer(h, r))
}

func answer(h http.Handler, r *http.Request) *http.Response {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return recorder.Result()
}

func text(response *http.Response) string {
	var b strings.Builder
	fmt.Fprintln(&b, response.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		for _, value := range response.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	b.WriteByte('\n')
	body, err := io.ReadAll(response.Body)
	b.Write(body)
	if err != nil {
		fmt.Fprintf(&b, "(%v)", err)
	}
	return b.String()
}

// expect compares an answer with the wanted one, which has an empty first line
// to look well.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, indent(got), indent(want))
	}
}

// inWords is the answer for who prefers plain text: in words, or the problem document if
// the framework gives no other.
func (s *suite) inWords(words, document string) string {
	if s.alwaysDocument {
		return document
	}
	return words
}

func indent(text string) string {
	return "\t" + strings.ReplaceAll(text, "\n", "\n\t")
}

// expectStatus wants this status and nothing else.
func expectStatus(t *testing.T, what string, h http.Handler, r *http.Request, want int) {
	t.Helper()
	if got := answer(h, r).StatusCode; got != want {
		t.Errorf("%s: status %d, want %d", what, got, want)
	}
}

// The parts of answers that many cases share.
const (
	served  = "Content-Type: text/plain; charset=utf-8\n"
	problem = `Content-Type: application/problem+json
`
	quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":`
)
