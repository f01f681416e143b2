package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/internal/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shout serves lines, each of which it answers in capitals, and tells what it has
// heard.
func shout(t *testing.T) (addr string, heard <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				for words := bufio.NewScanner(connection); words.Scan(); {
					lines <- words.Text()
					_, _ = io.WriteString(connection, strings.ToUpper(words.Text())+"\n")
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return listener.Addr().String(), lines
}

// caller is a client of the proxy.
type caller struct {
	net.Conn

	t *testing.T
}

func call(t *testing.T, p *faultproxy.Proxy) caller {
	t.Helper()
	connection, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return caller{connection, t}
}

func (c caller) say(words string) {
	c.t.Helper()
	if _, err := io.WriteString(c, words+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads a line, or as much as comes.
func (c caller) hear(patience time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(c).ReadString('\n')
	return line, err
}

func (c caller) wantWords(want string) {
	c.t.Helper()
	if got, err := c.hear(time.Minute); got != want || err != nil {
		c.t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func (c caller) wantSilence() {
	c.t.Helper()
	if got, err := c.hear(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("heard %q, %v, want nothing", got, err)
	}
}

func (c caller) wantReset() {
	c.t.Helper()
	if got, err := c.hear(time.Minute); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("heard %q, %v, want a reset", got, err)
	}
}

func wantHeard(t *testing.T, heard <-chan string, want string) {
	t.Helper()
	select {
	case got := <-heard:
		if got != want {
			t.Errorf("the server has heard %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Errorf("the server has not heard %q", want)
	}
}

func wantUnheard(t *testing.T, heard <-chan string) {
	t.Helper()
	select {
	case got := <-heard:
		t.Errorf("the server has heard %q, want nothing", got)
	default:
	}
}

func TestFaultsComeAndGo(t *testing.T) {
	addr, heard := shout(t)
	p := faultproxy.Start(t, addr)
	c := call(t, p)
	well := func() {
		t.Helper()
		c.say("well")
		c.wantWords("WELL\n")
		wantHeard(t, heard, "well")
	}
	well()

	p.Set(faultproxy.Fault{Hold: true})
	c.say("held")
	c.wantSilence()
	wantUnheard(t, heard)
	p.Heal()
	c.wantWords("HELD\n")
	wantHeard(t, heard, "held")
	well()

	p.Set(faultproxy.Fault{Latency: time.Hour})
	c.say("late")
	wantHeard(t, heard, "late")
	c.wantSilence()
	p.Heal()
	c.wantWords("LATE\n")

	p.Set(faultproxy.Fault{Replace: []byte("garbage\n")})
	c.say("other")
	c.wantWords("garbage\n")
	wantHeard(t, heard, "other")
	p.Heal()
	well()

	p.Set(faultproxy.Fault{When: "bad", Replace: []byte("garbage\n")})
	well()
	c.say("bad")
	c.wantWords("garbage\n")
	wantHeard(t, heard, "bad")
	well()
	p.Heal()

	p.Set(faultproxy.Fault{Bandwidth: 20})
	before := time.Now()
	c.say("slow")
	c.wantWords("SLOW\n")
	if took := time.Since(before); took < 200*time.Millisecond {
		t.Errorf("5 bytes at 20 a second took %v", took)
	}
	wantHeard(t, heard, "slow")
	p.Heal()
	well()
}

func TestConnectionsAreLost(t *testing.T) {
	addr, heard := shout(t)
	p := faultproxy.Start(t, addr)

	c := call(t, p)
	p.Set(faultproxy.Fault{LoseReplies: true})
	c.say("into the void")
	wantHeard(t, heard, "into the void")
	c.wantSilence()
	p.Heal()
	c.say("again")
	wantHeard(t, heard, "again")
	c.wantSilence() // for ever

	c = call(t, p)
	p.Set(faultproxy.Fault{CutReplies: true})
	c.say("done")
	c.wantReset()
	wantHeard(t, heard, "done")

	c = call(t, p)
	p.Set(faultproxy.Fault{CutRequests: true})
	c.say("never done")
	c.wantReset()
	wantUnheard(t, heard)

	c = call(t, p)
	p.Set(faultproxy.Fault{Truncate: 2})
	c.say("cut off")
	if got, err := c.hear(time.Minute); got != "CU" || !errors.Is(err, io.EOF) {
		t.Errorf("heard %q, %v, want two bytes and the end", got, err)
	}
	wantHeard(t, heard, "cut off")
	p.Heal()

	c = call(t, p)
	c.say("first")
	c.wantWords("FIRST\n")
	p.Set(faultproxy.Fault{Refuse: true})
	c.wantReset()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // else it was reset at once
		_ = conn.Close()
	}
	p.Heal()
	c = call(t, p)
	c.say("back")
	c.wantWords("BACK\n")
}

func TestServerLearnsLateThatTheClientHasGone(t *testing.T) {
	addr, _ := shout(t)
	p := faultproxy.Start(t, addr)
	c := call(t, p)
	c.say("here")
	c.wantWords("HERE\n")
	p.Set(faultproxy.Fault{CloseDelay: time.Hour})
	_ = c.Close()
	time.Sleep(20 * time.Millisecond)
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the one that has not been closed on the other side", n)
	}
	p.Reset()
	for deadline := time.Now().Add(time.Minute); p.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection that was reset stays")
		}
	}
}
