package redistest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

//go:embed lua54.lua
var lua54 string

// Lua54 is a front of a server that runs the scripts itself, in Lua 5.4, and passes all other commands on. Redis has Lua 5.1. Other servers with its
// commands have a later one, in which whole numbers are of another type, and some functions have other names.
type Lua54 struct {
	address string
	server  string

	commands sync.RWMutex // a script runs while no other command does

	mu      sync.Mutex
	scripts map[string]*loadedScript // the loaded scripts, by their hashes
	to      io.Writer                // of Lua's process
	from    *bufio.Reader
	direct  *frontConnection // on which the commands of scripts are sent
}

// loadedScript is a script that was loaded.
type loadedScript struct {
	place  int // in the order of loading, from 1
	source string
	runs   int
}

// frontConnection is a connection of a front to its server.
type frontConnection struct {
	net.Conn

	replies *bufio.Reader
}

// StartLua54 starts a front of a server, which ends with the test. Without Lua 5.4 the test is skipped, or fails where the environment says CI=true.
func StartLua54(t *testing.T, server *Server) *Lua54 {
	t.Helper()
	program, err := exec.LookPath("lua5.4")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("there is no Lua 5.4: %v", err)
		}
		t.Skipf("there is no Lua 5.4: %v", err)
	}
	f := &Lua54{server: server.Addr(), scripts: make(map[string]*loadedScript)}
	ctx, end := context.WithCancel(context.Background())
	lua := exec.CommandContext(ctx, program, "-e", "\n"+lua54)
	lua.Stderr = os.Stderr
	in, noIn := lua.StdinPipe()
	out, noOut := lua.StdoutPipe()
	listener, noListener := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	for _, err := range []error{noIn, noOut, noListener, lua.Start()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.address, f.to, f.from = listener.Addr().String(), in, bufio.NewReader(out)
	if f.direct, err = f.dial(ctx); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { f.accept(ctx, listener, &serving) })
	t.Cleanup(func() {
		_ = listener.Close()
		end()
		_ = f.direct.Close()
		serving.Wait()
		_ = lua.Wait()
	})
	return f
}

// Addr returns the address of the front.
func (f *Lua54) Addr() string { return f.address }

// Idle returns the first lines of the scripts that were loaded, and did not run in any form with the same first line.
func (f *Lua54) Idle() (lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	runs := make(map[string]int)
	for _, one := range f.scripts {
		first, _, _ := strings.Cut(one.source, "\n")
		runs[first] += one.runs
	}
	for first, n := range runs {
		if n == 0 {
			lines = append(lines, first)
		}
	}
	return lines
}

func (f *Lua54) dial(ctx context.Context) (*frontConnection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", f.server)
	if err != nil {
		return nil, err
	}
	return &frontConnection{conn, bufio.NewReader(conn)}, nil
}

func (f *Lua54) accept(ctx context.Context, listener net.Listener, serving *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			defer client.Close()
			server, err := f.dial(ctx)
			if err != nil {
				return
			}
			defer server.Close()
			defer context.AfterFunc(ctx, func() {
				_ = client.Close()
				_ = server.Close()
			})()
			f.serve(client, server)
		})
	}
}

// serve answers the commands of a client until one of the connections ends.
func (f *Lua54) serve(client net.Conn, server *frontConnection) {
	commands, replies := bufio.NewReader(client), bufio.NewWriter(client)
	for {
		raw, words, err := readCommand(commands)
		if err != nil {
			return
		}
		name := strings.ToLower(words[0])
		if strings.HasSuffix(name, "subscribe") {
			_, _ = server.Write(raw)
			go func() { _, _ = io.Copy(server, commands) }() // it ends with the connection
			_, _ = io.Copy(client, server.replies)
			return
		}
		var reply []byte
		switch {
		case name == "script" && strings.EqualFold(words[1], "load"):
			reply, err = f.load(words[2])
		case name == "eval":
			if reply, err = f.load(words[1]); err == nil && reply[0] == '$' {
				reply, err = f.run(hashOf(words[1]), words[2:])
			}
		case name == "evalsha":
			reply, err = f.run(strings.ToLower(words[1]), words[2:])
		default:
			reply, err = f.pass(server, raw)
		}
		if err != nil {
			return
		}
		_, _ = replies.Write(reply)
		if commands.Buffered() == 0 && replies.Flush() != nil {
			return
		}
	}
}

// pass passes a command on to the server, and returns its reply.
func (f *Lua54) pass(server *frontConnection, raw []byte) ([]byte, error) {
	f.commands.RLock()
	defer f.commands.RUnlock()
	return server.ask(raw)
}

func (c *frontConnection) ask(raw []byte) ([]byte, error) {
	if _, err := c.Write(raw); err != nil {
		return nil, err
	}
	var reply bytes.Buffer
	err := copyValue(&reply, c.replies)
	return reply.Bytes(), err
}

func hashOf(source string) string {
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	return hex.EncodeToString(sum[:])
}

// load gives Lua a script, and returns its hash or Lua's error as a reply.
func (f *Lua54) load(source string) ([]byte, error) {
	hash := hashOf(source)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.scripts[hash]; !known {
		if _, err := f.to.Write(command("load", source)); err != nil {
			return nil, err
		}
		var reply bytes.Buffer
		if err := copyValue(&reply, f.from); err != nil || reply.Bytes()[0] == '-' {
			return reply.Bytes(), err
		}
		f.scripts[hash] = &loadedScript{place: len(f.scripts) + 1, source: source}
	}
	return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(hash), hash), nil
}

// run runs a script with how many keys there are, the keys and the arguments, while no other command runs.
func (f *Lua54) run(hash string, words []string) ([]byte, error) {
	f.commands.Lock()
	defer f.commands.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.scripts[hash]
	if !known {
		return []byte("-NOSCRIPT No matching script.\r\n"), nil
	}
	one.runs++
	if _, err := f.to.Write(command(append([]string{"run", strconv.Itoa(one.place)}, words...)...)); err != nil {
		return nil, err
	}
	for {
		line, err := f.from.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var value bytes.Buffer
		if err := copyValue(&value, f.from); err != nil {
			return nil, err
		}
		if line == "return\r\n" {
			return value.Bytes(), nil
		}
		reply, err := f.direct.ask(value.Bytes())
		if err != nil {
			return nil, err
		}
		if _, err := f.to.Write(reply); err != nil {
			return nil, err
		}
	}
}

// command returns a command in the protocol of Redis.
func command(words ...string) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

// readCommand reads a command, which is a list of texts.
func readCommand(from *bufio.Reader) (raw []byte, words []string, err error) {
	var all bytes.Buffer
	if err := copyValue(&all, from); err != nil {
		return nil, nil, err
	}
	rest := bufio.NewReader(bytes.NewReader(all.Bytes()))
	line, _ := rest.ReadString('\n')
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	if err != nil || n < 1 {
		return nil, nil, fmt.Errorf("no command: %q", all.Bytes())
	}
	for range n {
		line, _ := rest.ReadString('\n')
		size, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(rest, word); err != nil {
			return nil, nil, err
		}
		words = append(words, string(word[:size]))
	}
	return all.Bytes(), words, nil
}

// copyValue copies one value of the protocol, of its second version or its third.
func copyValue(to *bytes.Buffer, from *bufio.Reader) error {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return err
	}
	to.Write(line)
	kind, inside := line[0], 0
	size, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch kind {
	case '$', '=', '!':
		if size >= 0 {
			_, err = io.CopyN(to, from, int64(size)+2)
		}
		return err
	case '*', '~', '>':
		inside = size
	case '%':
		inside = 2 * size
	case '|': // attributes, and then the value
		inside = 2*size + 1
	}
	for range inside {
		if err := copyValue(to, from); err != nil {
			return err
		}
	}
	return nil
}
