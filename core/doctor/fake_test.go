package doctor_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// says serves Redis' protocol as far as an examination needs it, with the replies given
// for some commands, and errors for the others.
func says(t *testing.T, replies map[string]string) (addr string) {
	t.Helper()
	return serve(t, func(command, last string) string {
		reply, ok := replies[command]
		if !ok {
			return "-ERR unknown command\r\n"
		}
		if bulk, ok := strings.CutPrefix(reply, "$"); ok && last == "at" { // the instant is asked for
			_, text, _ := strings.Cut(bulk, "\r\n")
			text = strings.TrimSuffix(text, "\r\n") + " 1700000000000000"
			return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		}
		return reply
	})
}

// serve answers commands in Redis' protocol.
func serve(t *testing.T, answer func(command, last string) string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				for lines := bufio.NewReader(connection); ; {
					command, last, err := readCommand(lines)
					if err != nil {
						return
					}
					if _, err := io.WriteString(connection, answer(command, last)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// readCommand reads a command with its arguments, and returns its name and the last of them.
func readCommand(lines *bufio.Reader) (name, last string, err error) {
	var count int
	if _, err := fmt.Fscanf(lines, "*%d\r\n", &count); err != nil {
		return "", "", err
	}
	for i := range count {
		var length int
		if _, err := fmt.Fscanf(lines, "$%d\r\n", &length); err != nil {
			return "", "", err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(lines, word); err != nil {
			return "", "", err
		}
		last = string(word[:length])
		if i == 0 {
			name = strings.ToLower(last)
		}
	}
	return name, last, nil
}
