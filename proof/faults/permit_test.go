package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

const (
	// permitWork is the environment variable that makes this test binary a child of TestPlacesOfProcesses: it
	// says the server of Redis, the prefix, and the address of the resource.
	permitWork = "RATELIMIT_PERMIT_CHILD"
	placesHeld = 3
)

var held = core.Concurrent(placesHeld, 400*time.Millisecond).Named("held")

// use is what a child tells the resource that it has a place for.
type use struct {
	Child int
	Token uint64
	// At is when the child was still sure of its place, on the machine's clock in microseconds, or 0 if it was
	// not.
	At int64
	// Left says that the child is about to release its place.
	Left bool
}

// resource is what may be used by placesHeld children at once. It knows who holds a place by their tokens: it
// refuses whoever comes with a token that is smaller than placesHeld others.
type resource struct {
	mu       sync.Mutex
	greatest []uint64         // of the tokens that it has seen, the smallest first
	inside   map[int]uint64   // the tokens of the children that use it
	sure     map[uint64]int64 // until when the holder of a token was sure of its place
	refused  map[uint64]int
}

func (r *resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var u use
	if err := json.NewDecoder(request.Body).Decode(&u); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !r.admit(u) {
		w.WriteHeader(http.StatusConflict)
	}
}

func (r *resource) admit(u use) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.At > 0 {
		r.sure[u.Token] = max(r.sure[u.Token], u.At)
	}
	if !slices.Contains(r.greatest, u.Token) {
		r.greatest = append(r.greatest, u.Token)
		slices.Sort(r.greatest)
		r.greatest = r.greatest[max(0, len(r.greatest)-placesHeld):]
	}
	admitted := slices.Contains(r.greatest, u.Token)
	if !admitted {
		r.refused[u.Token]++
	}
	if u.Left || !admitted {
		delete(r.inside, u.Child)
	} else {
		r.inside[u.Child] = u.Token
	}
	return admitted
}

// users returns those of some children that use the resource.
func (r *resource) users(of []int) (users []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, child := range of {
		if _, inside := r.inside[child]; inside {
			users = append(users, child)
		}
	}
	return users
}

// tokenOf returns the token of a child that uses the resource, or 0.
func (r *resource) tokenOf(child int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inside[child]
}

// mostAtOnce returns how many were sure of their places at once. A token is the instant of its grant on the
// server's clock, which is the machine's.
func (r *resource) mostAtOnce() (most, tokens int) {
	type edge struct {
		at   int64
		step int
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var edges []edge
	for token, until := range r.sure {
		if from := int64(token); from < until {
			edges = append(edges, edge{from, 1}, edge{until, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most, len(r.sure)
}

// Processes share places, and some of them are killed, and others stopped for longer than their lease. No more of
// them are ever sure of a place than there are. The places of the dead are granted again, and those of the stopped,
// which are refused by their tokens when they go on. In the end all places are free.
func TestPlacesOfProcesses(t *testing.T) {
	t.Parallel()
	const children = 7
	server := redistest.Start(t)
	prefix := redistest.Prefix(t)
	r := &resource{inside: make(map[int]uint64), sure: make(map[uint64]int64), refused: make(map[uint64]int)}
	web := httptest.NewServer(r)
	defer web.Close()
	var living []int
	commands := make([]*exec.Cmd, children)
	inputs := make([]io.Closer, children)
	for i := range children {
		commands[i] = exec.CommandContext(t.Context(), os.Args[0])
		commands[i].Env = append(os.Environ(), permitWork+"="+strings.Join([]string{server.URL(), prefix, web.URL, strconv.Itoa(i)}, "\n"))
		commands[i].Stderr = os.Stderr
		input, err := commands[i].StdinPipe()
		if err == nil {
			err = commands[i].Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		inputs[i], living = input, append(living, i)
	}
	signal := func(child int, s os.Signal) {
		if err := commands[child].Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	full := func() bool { return len(r.users(living)) == placesHeld }
	awaitThat(t, "all places are used", full)
	for range 2 {
		victim := r.users(living)
		if len(victim) == 0 {
			continue // they have just left
		}
		signal(victim[0], syscall.SIGKILL)
		_ = commands[victim[0]].Wait() // it was killed
		living = without(living, victim[0])
		awaitThat(t, "the places of the dead are used", full)
	}
	for range 2 {
		var stopped []int
		for _, child := range r.users(living) {
			if len(stopped) < 2 {
				signal(child, syscall.SIGSTOP)
				stopped = append(stopped, child)
			}
		}
		tokens := make(map[int]uint64)
		for _, child := range stopped {
			living, tokens[child] = without(living, child), r.tokenOf(child)
		}
		time.Sleep(held.Rate().Period)
		awaitThat(t, "the places of the stopped are used", func() bool { return len(r.users(living)) >= min(placesHeld, len(living)) })
		for _, child := range stopped {
			signal(child, syscall.SIGCONT)
			living = append(living, child)
		}
		for _, child := range stopped {
			awaitThat(t, "the stopped go on with other places", func() bool { return r.tokenOf(child) != tokens[child] })
		}
	}
	awaitThat(t, "all places are used", full)
	for _, child := range living {
		_ = inputs[child].Close()
		if err := commands[child].Wait(); err != nil {
			t.Errorf("child %d: %v", child, err)
		}
	}
	limiter, err := core.Open(server.URL(), core.WithPrefix(prefix), core.WithBudget(widest))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	awaitThat(t, "all places are free", func() bool {
		d, err := limiter.Peek(t.Context(), "key", held)
		return err == nil && d.Remaining == placesHeld
	})
	most, tokens := r.mostAtOnce()
	if most > placesHeld {
		t.Errorf("%d were sure of %d places at once", most, placesHeld)
	}
	t.Logf("%d were granted a place, and at most %d were sure of one at once", tokens, most)
}

// awaitThat waits until something is true, for as long as the slowest machine needs.
func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

func without(list []int, one int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(other int) bool { return other == one })
}

// bePermitChild takes places and uses the resource, until its input ends.
func bePermitChild(text string) int {
	parts := strings.SplitN(text, "\n", 4)
	number, err := strconv.Atoi(parts[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	limiter, err := core.Open(parts[0], core.WithPrefix(parts[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer limiter.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		permit, err := limiter.Acquire(ctx, "key", held)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // the server is slow, or there is nothing left to do
			continue
		}
		useResource(number, permit, parts[2])
		permit.Release()
	}
	return 0
}

// useResource uses the resource for a while, or until it is refused. A careful process would stop when its permit has ended:
// this one is stopped by the resource alone.
func useResource(number int, permit *core.Permit, resource string) {
	const uses = 30
	for i := range 1 + rand.IntN(uses) {
		u := use{Child: number, Token: permit.Token(), At: time.Now().UnixMicro()}
		if permit.Err() != nil {
			u.At = 0
		}
		if !tell(resource, u) {
			return
		}
		time.Sleep(time.Duration(5+i%5) * time.Millisecond)
	}
	tell(resource, use{Child: number, Token: permit.Token(), Left: true})
}

// tell tells the resource of a use, and returns whether it is admitted.
func tell(resource string, u use) bool {
	text, err := json.Marshal(u)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, resource, strings.NewReader(string(text)))
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
