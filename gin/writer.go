package ratelimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// noticed is gin's writer, and tells the one below, which writes to it, when the response
// begins, and with which status.
type noticed struct {
	gin.ResponseWriter

	below http.ResponseWriter
	begun bool
	left  bool // the handlers have returned: the next status is that of the answer
}

func (w *noticed) begin() {
	if !w.begun {
		w.begun = true
		w.below.WriteHeader(w.Status())
	}
}

// WriteHeader sets the status, which gin sends with the first byte.
func (w *noticed) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if w.left && w.Status() == status {
		w.begin()
	}
}

func (w *noticed) WriteHeaderNow() {
	w.begin()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *noticed) Write(p []byte) (int, error) {
	w.begin()
	return w.below.Write(p)
}

func (w *noticed) WriteString(s string) (int, error) {
	w.begin()
	return io.WriteString(w.below, s)
}

func (w *noticed) Flush() {
	w.begin()
	w.ResponseWriter.Flush()
}

func (w *noticed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.below).Hijack()
}

// Unwrap lets [http.ResponseController] find the writer's other abilities.
func (w *noticed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
