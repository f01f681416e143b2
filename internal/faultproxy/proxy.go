package faultproxy

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a server. Its methods may be used by many
// goroutines at once.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed when the fault changes
	links   map[*link]struct{}
	closed  bool
}

// Start starts a proxy for the server at an address. It ends with the test.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(context.WithoutCancel(tb.Context()), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), links: make(map[*link]struct{})}
	p.work.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the address to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set puts a fault in the place of the one before, for all connections.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if f.Refuse {
		p.Reset()
	}
}

// Heal ends the fault.
func (p *Proxy) Heal() { p.Set(Fault{}) }

// Reset resets the connections that are open, on both sides.
func (p *Proxy) Reset() {
	for _, l := range p.open() {
		l.reset()
	}
}

// Connections returns how many connections are open.
func (p *Proxy) Connections() int { return len(p.open()) }

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// now returns the fault, and a channel that is closed when there is another.
func (p *Proxy) now() (f Fault, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.work.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	if f, _ := p.now(); f.Refuse {
		abort(client)
		return
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		abort(client)
		return
	}
	l := &link{proxy: p, client: client, server: server, gone: make(chan struct{})}
	p.mu.Lock()
	if p.closed || p.fault.Refuse {
		p.mu.Unlock()
		l.reset()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pass(client, server, l.request) })
	both.Go(func() { l.pass(server, client, l.reply) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// Close ends the proxy before the test does.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Reset()
	p.work.Wait()
}

// abort closes a connection with a reset.
func abort(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}
