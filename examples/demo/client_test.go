package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
)

// demo is a page that is served, and ended with its test.
type demo struct {
	*page

	url string
}

func start(t *testing.T, store core.Store) *demo {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, listener, store)
}

func startOn(t *testing.T, listener net.Listener, store core.Store) *demo {
	t.Helper()
	p := newPage(store, "a test", listener.Addr())
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx, listener) }()
	t.Cleanup(func() {
		interrupt()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return &demo{p, "http://" + listener.Addr().String()}
}

func inMemoryDemo(t *testing.T) *demo {
	t.Helper()
	return start(t, core.NewMemory())
}

// client is a visitor's browser.
type client struct {
	testing.TB
	http.Client

	url string
}

// visit opens the page as a new visitor.
func (d *demo) visit(t *testing.T) *client {
	t.Helper()
	return d.visitBy(t, new(http.Transport))
}

func (d *demo) visitBy(t *testing.T, transport *http.Transport) *client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{TB: t, Client: http.Client{Jar: jar, Transport: transport}, url: d.url}
	if response := c.get("/"); response.StatusCode != http.StatusOK {
		t.Fatalf("GET /: %s", response.Status)
	}
	return c
}

// get asks for a path, and reads what comes.
func (c *client) get(path string) *http.Response {
	c.Helper()
	response, err := c.Get(c.url + path)
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}

// ask posts something, and returns the status and what is wrong.
func (c *client) ask(method, path, body string) (int, fieldError) {
	c.Helper()
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	var problem fieldError
	if response.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
			c.Fatalf("%s %s: %s: %v", method, path, response.Status, err)
		}
	}
	return response.StatusCode, problem
}

// must posts something that has to be taken.
func (c *client) must(method, path, body string) {
	c.Helper()
	if status, problem := c.ask(method, path, body); status != http.StatusNoContent {
		c.Fatalf("%s %s %s: %d %s", method, path, body, status, problem.Text)
	}
}

// watch opens a stream, and returns a function that reads frames until one, or all
// that came so far together, are as wanted.
func (c *client) watch(t *testing.T) func(wanted func(last *frame, answers []answer) bool) (*frame, []answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET /stream: %s, %v", response.Status, response.Header)
	}
	lines := bufio.NewReader(response.Body)
	var answers []answer
	return func(wanted func(*frame, []answer) bool) (*frame, []answer) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended before what is wanted came: %v", err)
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var f frame
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				t.Fatal(err)
			}
			answers = append(answers, f.Answers...)
			if wanted(&f, answers) {
				return &f, answers
			}
		}
	}
}

// card returns what a frame says about an algorithm's card.
func (f *frame) card(name string) *cardFrame {
	for i := range f.Cards {
		if f.Cards[i].Algorithm == name {
			return &f.Cards[i]
		}
	}
	return nil
}

// slow gives all cards limits of three that take a minute to recover, so that a test
// need not hurry, and the queue one that is quick.
func (c *client) slow() {
	c.Helper()
	for _, a := range algorithms {
		pace := "60s"
		switch {
		case a.Name == "shaping":
			pace = "20/s"
		case !a.Windowed:
			pace = "3/m"
		}
		c.must("POST", "/limits/"+a.Name, fmt.Sprintf(`{"capacity":"3","pace":%q}`, pace))
	}
}
