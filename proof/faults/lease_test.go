package faults_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
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

// leaseWork is the environment variable that makes this test binary a child of TestLeasesOfProcesses: it says the server of Redis,
// the prefix, the tolerance and how many checks the child asks for in a second.
const leaseWork = "RATELIMIT_LEASE_CHILD"

// leasedOver is tolerated of the limit that the children share.
const leasedOver = 0.05

var sharedLimit = core.Leaky(4000, core.PerSecond(4000)) // leases last 50 ms

// beLeasingChild asks until its input ends, and writes each microsecond at which a check was admitted, below 0 if it was leased.
func beLeasingChild(text string) int {
	work := strings.Split(text, "\n")
	over, _ := strconv.ParseFloat(work[2], 64)
	rate, _ := strconv.Atoi(work[3])
	options := []core.Option{core.WithPrefix(work[1]), core.WithBudget(5 * time.Second)}
	store, err := core.OpenStore(work[0], options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	limiter := core.New(core.Lease(store, core.Tolerance{Over: over}))
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var mu sync.Mutex
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() {
			pause := 8 * time.Second / time.Duration(rate)
			for at := time.Now(); ctx.Err() == nil; at = at.Add(pause) {
				time.Sleep(time.Until(at) + rand.N(pause))
				d, err := limiter.Allow(ctx, "everybody", sharedLimit)
				if err != nil || !d.Allowed {
					continue
				}
				now := time.Now().UnixMicro()
				if d.Leased {
					now = -now
				}
				mu.Lock()
				_ = binary.Write(os.Stdout, binary.LittleEndian, now)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	if err := limiter.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// leasingChild is a process, and what it has admitted.
type leasingChild struct {
	command *exec.Cmd
	input   io.Closer
	read    chan struct{} // closed when all is read
	passed  []int64
	leased  int
}

func startLeasingChild(t *testing.T, work ...string) *leasingChild {
	t.Helper()
	c := &leasingChild{command: exec.CommandContext(t.Context(), os.Args[0]), read: make(chan struct{})}
	c.command.Env = append(os.Environ(), leaseWork+"="+strings.Join(work, "\n"))
	c.command.Stderr = os.Stderr
	input, err := c.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	c.input = input
	go func() {
		defer close(c.read)
		for in := bufio.NewReader(output); ; {
			var at int64
			if binary.Read(in, binary.LittleEndian, &at) != nil {
				return
			}
			if at < 0 {
				c.leased++
				at = -at
			}
			c.passed = append(c.passed, at)
		}
	}()
	return c
}

func (c *leasingChild) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Ten processes share one key of one server, and ask for twice what it admits. One is killed, and one stands still for a while. They
// admit no more than the bound, and hardly less than an exact limiter. A machine that does something else meanwhile admits less: so
// that has to be seen once in three times, each twice as long as the one before.
func TestLeasesOfProcesses(t *testing.T) {
	length := cmp.Or(leaseLength(), 4*time.Second)
	for attempt := 1; ; attempt++ {
		share := leasedShare(t, length)
		if share >= 0.8 { // as much as a busy machine asks for; a minute by itself comes to 0.98
			return
		}
		if attempt == 3 {
			t.Fatalf("%.3f of what an exact limiter may admit, the third time", share)
		}
		length *= 2
	}
}

// leasedShare has ten processes share a key for so long, and returns which share of what an exact limiter admits they have.
func leasedShare(t *testing.T, length time.Duration) (share float64) {
	t.Helper()
	const processes = 10
	server, prefix := redistest.Start(t), redistest.Prefix(t)
	var children []*leasingChild
	for range processes {
		children = append(children, startLeasingChild(t, server.URL(), prefix, fmt.Sprint(leasedOver), strconv.Itoa(2*sharedLimit.Rate().Events/processes)))
	}
	time.Sleep(length / 4)
	children[0].signal(t, syscall.SIGKILL)
	children[1].signal(t, syscall.SIGSTOP)
	time.Sleep(length / 4)
	children[1].signal(t, syscall.SIGCONT)
	time.Sleep(length / 2)
	var passed []int64
	leased := 0
	for i, c := range children {
		_ = c.input.Close()
		<-c.read
		if err := c.command.Wait(); err != nil && i != 0 {
			t.Errorf("process %d: %v", i, err)
		}
		passed, leased = append(passed, c.passed...), leased+c.leased
	}
	slices.Sort(passed)
	if len(passed) == 0 {
		t.Fatal("nothing was admitted")
	}
	took := time.Duration(passed[len(passed)-1]-passed[0]) * time.Microsecond
	capacity, rate := float64(sharedLimit.Capacity()), float64(sharedLimit.Rate().Events)
	exact := capacity + rate*took.Seconds()
	if bound := exact + leasedOver*capacity; float64(len(passed)) > bound {
		t.Errorf("%d were admitted in %v, and the bound is %.0f", len(passed), took, bound)
	}
	share = float64(len(passed)) / exact
	t.Logf("%d admitted in %v, %.4f of what an exact limiter may admit; %d of them leased", len(passed), took, share, leased)
	if leased < len(passed)/20 {
		t.Errorf("%d of %d were leased", leased, len(passed))
	}
	return share
}

// leaseLength is how long TestLeasesOfProcesses takes, or 0.
func leaseLength() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("RATELIMIT_LEASE_LENGTH"))
	return d
}

// While the server is frozen, what is leased may be spent until it lapses, and then the call fails. Nothing is renewed without the
// server.
func TestLeasesOutliveNoServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := core.NewRedis(server.Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(100*time.Millisecond))
	limiter := core.New(core.Lease(store, core.Tolerance{Over: 1}))
	limit := core.Leaky(100_000, core.PerSecond(100_000)) // leases last a second
	leased := false
	for end := time.Now().Add(20 * time.Second); !leased && time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		d, err := limiter.Allow(t.Context(), "key", limit)
		leased = err == nil && d.Leased
	}
	if !leased {
		t.Fatal("the key was never leased")
	}
	server.Pause(t)
	frozen := time.Now()
	var last time.Duration
	for time.Since(frozen) < 2500*time.Millisecond {
		before := time.Since(frozen)
		d, err := limiter.Allow(t.Context(), "key", limit)
		if err == nil && d.Leased {
			last = before // it was asked for before, and decided after
		} else if err == nil {
			t.Fatalf("decided without the server: %+v", d)
		}
		time.Sleep(time.Millisecond)
	}
	server.Resume(t)
	if last > time.Second {
		t.Errorf("a lease was spent %v after the server was frozen", last)
	}
	t.Logf("leases were spent for %v", last)
	_ = limiter.Close()
}
