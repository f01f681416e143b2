package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// link is a client's connection and the one to the server that belongs to it.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	once sync.Once
	gone chan struct{} // closed with the link

	mu       sync.Mutex
	asked    []byte // since the last reply
	answered bool   // there has been a reply to asked

	lost bool // replies have been lost; for the goroutine that passes them
}

// reset breaks both connections.
func (l *link) reset() {
	l.end(func() {
		abort(l.client)
		abort(l.server)
	})
}

// shut closes both connections in good order.
func (l *link) shut() {
	l.end(func() {
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (l *link) end(how func()) {
	l.once.Do(func() {
		close(l.gone)
		how()
	})
}

// pass copies bytes from one side to the other, with the faults of their direction.
func (l *link) pass(from, to net.Conn, take func(to net.Conn, piece []byte) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !take(to, buffer[:n]) {
			return
		}
		if err != nil {
			f, _ := l.proxy.now()
			l.wait(f.CloseDelay, nil)
			l.shut()
			return
		}
	}
}

// request takes bytes to the server, and reports whether the link is still there.
func (l *link) request(to net.Conn, piece []byte) bool {
	f, ok := l.hold()
	if !ok {
		return false
	}
	if f.CutRequests {
		l.reset()
		return false
	}
	l.mu.Lock()
	if l.answered {
		l.asked, l.answered = l.asked[:0], false
	}
	l.asked = append(l.asked, piece...)
	l.mu.Unlock()
	return l.write(to, piece)
}

// spares reports whether a fault does not apply to the reply to the last command.
func (l *link) spares(f *Fault) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	return !bytes.Contains(l.asked, []byte(f.When))
}

// reply takes bytes to the client, and reports whether the link is still there.
func (l *link) reply(to net.Conn, piece []byte) bool {
	f, ok := l.hold()
	switch {
	case !ok:
		return false
	case l.spares(&f) && !l.lost:
		return l.write(to, piece)
	case l.lost || f.LoseReplies:
		l.lost = true
		return true
	case f.CutReplies:
		l.reset()
		return false
	}
	if f.Latency > 0 {
		_, changed := l.proxy.now()
		l.wait(f.Latency, changed)
	}
	if f.Replace != nil {
		piece = f.Replace
	}
	if f.Truncate > 0 {
		l.write(to, piece[:min(f.Truncate, len(piece))])
		l.shut()
		return false
	}
	if f.Bandwidth > 0 {
		return l.trickle(to, piece, f.Bandwidth)
	}
	return l.write(to, piece)
}

// hold returns the fault when it lets bytes through, and false when the link has
// ended before.
func (l *link) hold() (f Fault, ok bool) {
	for {
		f, changed := l.proxy.now()
		if !f.Hold {
			return f, true
		}
		select {
		case <-changed:
		case <-l.gone:
			return f, false
		}
	}
}

// trickle writes bytes one by one, as many in a second as may pass.
func (l *link) trickle(to net.Conn, piece []byte, bandwidth int) bool {
	_, changed := l.proxy.now()
	for i := range piece {
		l.wait(time.Second/time.Duration(bandwidth), changed)
		if !l.write(to, piece[i:i+1]) {
			return false
		}
	}
	return true
}

func (l *link) write(to net.Conn, piece []byte) bool {
	if _, err := to.Write(piece); err != nil {
		l.shut()
		return false
	}
	return true
}

// wait waits, unless the fault changes or the link ends before.
func (l *link) wait(d time.Duration, changed <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-l.gone:
	}
}
