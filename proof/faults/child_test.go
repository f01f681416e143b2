package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// childWork is the environment variable that makes this test binary a child, which asks
// until its input ends, and then prints what it was told. It holds the work in JSON.
const childWork = "RATELIMIT_FAULTS_CHILD"

// child is another process that asks.
type child struct {
	command *exec.Cmd
	input   io.Closer
	output  io.Reader
}

func startChild(t *testing.T, w work) *child {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), childWork+"="+string(text))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{command: command, input: input, output: output}
}

// end has the child stop, and returns what it was told.
func (c *child) end(t *testing.T) []operation {
	t.Helper()
	_ = c.input.Close()
	var told []operation
	for lines := json.NewDecoder(bufio.NewReader(c.output)); ; {
		var o operation
		if err := lines.Decode(&o); err != nil {
			break // the end, or what Wait reports
		}
		told = append(told, o)
	}
	if err := c.command.Wait(); err != nil {
		t.Errorf("a child: %v", err)
	}
	return told
}

// beChild does the work of a child, and returns the code to exit with.
func beChild(text string) int {
	var w work
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stopped := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stopped)
	}()
	var mu sync.Mutex
	var told []operation
	w.run(stopped, func(o operation) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, o)
	})
	output := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(output)
	for _, o := range told {
		_ = lines.Encode(o) // the error stays with the output
	}
	if err := output.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
