package wait_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/wait"
)

type class = wait.Class

// key returns the key of lines.
func key(name string) wait.LineKey { return wait.LineKey{Key: name} }

// keys are the keys of a store, with how many units of each are used.
type keys struct {
	lines *wait.Lines
	trip  time.Duration // of a call

	mu      sync.Mutex
	used    map[wait.LineKey]int
	changed time.Time // when something was given back, or somebody left
}

func newKeys(trip time.Duration) *keys {
	return &keys{lines: wait.NewLines(func(int) time.Duration { return 100 * time.Millisecond }), trip: trip, used: map[wait.LineKey]int{}}
}

// ask takes units of all classes, or says which are lacking.
func (k *keys) ask(want []class) (lacks []wait.Lack) {
	time.Sleep(k.trip / 2)
	defer time.Sleep(k.trip / 2)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range want {
		if k.used[c.Key]+c.Cost > c.Ceiling {
			lacks = append(lacks, wait.Lack{Class: c})
		}
	}
	for _, c := range want {
		if lacks == nil {
			k.used[c.Key] += c.Cost
		}
	}
	return lacks
}

func (k *keys) free(c class) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, c.Ceiling-k.used[c.Key]) / c.Cost
}

func (k *keys) giveBack(want []class) {
	k.mu.Lock()
	for _, c := range want {
		k.used[c.Key] -= c.Cost
	}
	k.changed = time.Now()
	k.mu.Unlock()
	for _, c := range want {
		k.lines.Wake(c.Key)
	}
}

// wait waits for units of all classes until given up, and reports whether it has them.
func (k *keys) wait(want []class, givenUp <-chan struct{}) bool {
	arrived := time.Now()
	var lacks []wait.Lack
	for _, c := range k.lines.Behind(want...) {
		lacks = append(lacks, wait.Lack{Class: c})
	}
	if lacks == nil {
		if lacks = k.ask(want); lacks == nil {
			return true
		}
	}
	w := k.lines.Join(arrived, lacks)
	for {
		select {
		case <-givenUp:
			k.lines.Leave(w, nil)
			return false
		case <-w.Turn():
		}
		if lacks = k.ask(want); lacks == nil {
			k.lines.Leave(w, k.free)
			return true
		}
		k.lines.Denied(w, lacks)
	}
}

// Whatever waiters want, and whoever gives up: nobody waits beside what is free for longer than a round trip, those who want
// the same are served in the order in which they arrived, all are served, and nothing is left then.
func TestAnyLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyLines) })
}

func anyLines(t *rapid.T) {
	k := newKeys(2 * time.Millisecond)
	type one struct {
		want    []class
		arrived time.Time
		served  time.Time
		ended   bool
		leave   chan struct{}
	}
	var all []*one
	var mu sync.Mutex
	var group sync.WaitGroup
	draw := func(name string) class {
		return class{key(name), rapid.SampledFrom([]int{4, 4, 2}).Draw(t, "ceiling"), rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "cost")}
	}
	quiet := func(t *rapid.T) {
		time.Sleep(3 * k.trip)
		synctest.Wait()
		k.mu.Lock()
		changed := time.Since(k.changed) < 3*k.trip
		k.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		for _, o := range all {
			if changed || o.ended || time.Since(o.arrived) < 3*k.trip {
				continue
			}
			fits, blocked := true, false
			for _, c := range o.want {
				fits = fits && k.free(c) > 0
				for _, older := range all {
					for _, d := range older.want {
						blocked = blocked || !older.ended && older != o && !older.arrived.After(o.arrived) && d.Key == c.Key && d.Ceiling >= c.Ceiling &&
							(d == c || time.Since(older.arrived) >= wait.Patience)
					}
				}
			}
			if fits && !blocked {
				t.Errorf("%v waits beside what is free: %v", o.want, k.used)
			}
		}
	}
	defer group.Wait() // also where rapid gives up
	t.Repeat(map[string]func(*rapid.T){
		"arrive": func(t *rapid.T) {
			o := &one{want: []class{draw("a")}, arrived: time.Now(), leave: make(chan struct{})}
			if rapid.Bool().Draw(t, "two") {
				o.want = append(o.want, draw("b"))
			}
			hold := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}).Draw(t, "hold")
			mu.Lock()
			all = append(all, o)
			mu.Unlock()
			group.Go(func() {
				got := k.wait(o.want, o.leave)
				mu.Lock()
				if o.ended = true; got {
					o.served = time.Now()
				}
				mu.Unlock()
				k.mu.Lock()
				k.changed = time.Now()
				k.mu.Unlock()
				if got {
					time.Sleep(hold)
					k.giveBack(o.want)
				}
			})
			time.Sleep(time.Microsecond)
		},
		"give up": func(t *rapid.T) {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range all {
				if !o.ended && rapid.Bool().Draw(t, "this one") {
					select {
					case <-o.leave:
					default:
						close(o.leave)
					}
				}
			}
		},
		"time passes": func(*rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 50 * time.Millisecond, 600 * time.Millisecond}).Draw(t, "time"))
		},
		"": quiet,
	})
	group.Wait()
	if n := k.lines.Waiting(); n != 0 {
		t.Errorf("somebody waits for %d keys", n)
	}
	for i, a := range all { // those who ask at the same time may pass each other
		passed := 0
		for _, b := range all[i+1:] {
			if slices.Equal(a.want, b.want) && len(a.want) == 1 && !a.served.IsZero() && !b.served.IsZero() && a.served.Sub(b.served) > 2*k.trip {
				passed++
			}
		}
		if passed > 4 {
			t.Errorf("%v was passed by %d who want the same", a.want, passed)
		}
	}
}

// One poll at a time notices what nobody has told of, also while others arrive.
func TestPollsAreNotPutOff(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		k := newKeys(0)
		one := []class{{key("a"), 1, 1}}
		k.used[key("a")] = 1
		began := time.Now()
		served := make(chan time.Duration, 1)
		go func() {
			k.wait(one, nil)
			served <- time.Since(began)
		}()
		time.Sleep(time.Millisecond)
		k.mu.Lock()
		k.used[key("a")] = 0 // as another process would
		k.mu.Unlock()
		never := make(chan struct{})
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			go k.wait(one, never)
		}
		if took := <-served; took > 110*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
		close(never)
	})
}

// A line of thousands costs each of them about the same.
func BenchmarkJoinAndLeave(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			l := wait.NewLines(func(int) time.Duration { return time.Hour })
			lack := []wait.Lack{{Class: class{key("a"), 1, 1}}}
			for range n {
				l.Join(time.Now(), lack)
			}
			for b.Loop() {
				l.Leave(l.Join(time.Now(), lack), nil)
			}
		})
	}
}
