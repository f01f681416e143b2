package routertest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipes is a listener for connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial returns the client's end of a new connection.
func (p *pipes) dial() net.Conn {
	there, back := newStream(), newStream()
	select {
	case p.conns <- &pipe{from: there, to: back}:
	case <-p.closed:
	}
	return &pipe{from: back, to: there}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return inMemory{} }

type inMemory struct{}

func (inMemory) Network() string { return "tcp" }
func (inMemory) String() string  { return "192.0.2.1:80" }

// pipe is one end of a connection in memory. It keeps what is written until it is read.
type pipe struct{ from, to *stream }

func (p *pipe) Read(text []byte) (int, error)  { return p.from.read(text) }
func (p *pipe) Write(text []byte) (int, error) { return p.to.write(text) }

func (p *pipe) Close() error {
	p.from.close()
	p.to.close()
	return nil
}

func (p *pipe) LocalAddr() net.Addr              { return inMemory{} }
func (p *pipe) RemoteAddr() net.Addr             { return inMemory{} }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

func (p *pipe) SetDeadline(at time.Time) error { return p.SetReadDeadline(at) }

// SetReadDeadline ends a read at once if the time has passed. net/http asks for no other deadline here.
func (p *pipe) SetReadDeadline(at time.Time) error {
	p.from.expire(!at.IsZero() && !at.After(time.Now()))
	return nil
}

// stream is one direction of a connection.
type stream struct {
	mu              sync.Mutex
	changed         sync.Cond
	text            []byte
	closed, expired bool
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.text) == 0 && !s.closed && !s.expired {
		s.changed.Wait()
	}
	switch {
	case s.expired:
		return 0, os.ErrDeadlineExceeded
	case len(s.text) == 0:
		return 0, io.EOF
	}
	n := copy(text, s.text)
	if s.text = s.text[n:]; len(s.text) == 0 {
		s.text = s.text[:0:cap(s.text)]
	}
	return n, nil
}

func (s *stream) write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.text = append(s.text, text...)
	s.changed.Broadcast()
	return len(text), nil
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

func (s *stream) expire(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = expired
	s.changed.Broadcast()
}
