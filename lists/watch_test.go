package lists_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/lists"
)

var errDown = errors.New("down")

// scripted is a source that says what it is told to say, and remembers what OnError is told.
type scripted struct {
	mu    sync.Mutex
	list  *lists.List
	err   error
	asked int
	told  []error
}

func (s *scripted) read(context.Context) (*lists.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.list, s.err
}

// say tells the source what to say from now on.
func (s *scripted) say(list *lists.List, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.err = list, err
}

func (s *scripted) onError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, err)
}

// since returns how often the source was asked, and what was told, since it was last called.
func (s *scripted) since() (asked int, told []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, told = s.asked, s.told
	s.asked, s.told = 0, nil
	return asked, told
}

func TestAWatchedListFollowsItsSource(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		begin := lists.Of("203.0.113.1")
		source := &scripted{list: begin}
		live, err := lists.Watch(t.Context(), source.read, lists.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !live.List().Has(first, "") || live.List().Prefixes() != 1 || live.Keys() != 0 || live.List() != begin {
			t.Error("the list is not in force when Watch returns")
		}
		source.say(lists.Of("203.0.113.2", "key:user:42"), nil)
		time.Sleep(4 * time.Second)
		if asked, _ := source.since(); !live.List().Has(first, "") || asked != 1 {
			t.Errorf("the source was asked %d times in 4 seconds, want 1", asked)
		}
		time.Sleep(2 * time.Second)
		if asked, _ := source.since(); live.List().Has(first, "") || !live.List().Has(second, "") || !live.List().Has(netip.Addr{}, "user:42") || asked != 1 {
			t.Errorf("after 6 seconds, the list does not follow: asked %d times more", asked)
		}
		source.say(nil, nil) // nothing has changed
		time.Sleep(10 * time.Minute)
		if !live.List().Has(second, "") {
			t.Error("the list was lost")
		}
		if asked, _ := source.since(); asked < 105 || asked > 135 {
			t.Errorf("asked %d times in ten minutes, want about 120", asked)
		}
	})
}

func TestTheLastGoodListStaysWhateverFails(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		source := &scripted{list: lists.Of("203.0.113.1")}
		live, err := lists.Watch(t.Context(), source.read, lists.WatchOptions{Every: time.Minute, OnError: source.onError})
		if err != nil {
			t.Fatal(err)
		}
		source.say(nil, errDown)
		time.Sleep(time.Hour)
		if !live.List().Has(first, "") {
			t.Error("the list is gone")
		}
		if _, told := source.since(); len(told) < 50 || len(told) > 70 || !errors.Is(told[0], errDown) || !strings.HasPrefix(told[0].Error(), "lists: ") {
			t.Errorf("told %d errors in an hour, %v, want about 60", len(told), told)
		}
		source.say(lists.Of("203.0.113.2"), nil)
		time.Sleep(70 * time.Second)
		if _, told := source.since(); live.List().Has(first, "") || !live.List().Has(second, "") || len(told) > 0 {
			t.Errorf("the list does not come back: %v", told)
		}
	})
}

func TestASourceThatCannotBeReadAtTheStart(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		source := &scripted{err: errDown}
		if live, err := lists.Watch(t.Context(), source.read, lists.WatchOptions{OnError: source.onError}); live != nil || !errors.Is(err, errDown) {
			t.Errorf("list %v, error %v", live, err)
		}
		time.Sleep(time.Minute)
		if asked, told := source.since(); asked != 1 || len(told) > 0 {
			t.Errorf("asked %d times, told %v: it is watched in spite of the error", asked, told)
		}

		live, err := lists.Watch(t.Context(), source.read, lists.WatchOptions{Start: lists.Of("203.0.113.1"), OnError: source.onError})
		if _, told := source.since(); err != nil || !live.List().Has(first, "") || len(told) != 1 {
			t.Fatalf("error %v, told %v, want what Start says, and one error told", err, told)
		}
		source.say(lists.Of("203.0.113.2"), nil)
		time.Sleep(6 * time.Second)
		if live.List().Has(first, "") || !live.List().Has(second, "") {
			t.Error("the source was read, and Start is still in force")
		}
	})
}

func TestWatchingEndsWithItsContext(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		source := &scripted{list: lists.Of("203.0.113.1")}
		var reading atomic.Int64
		live, err := lists.Watch(ctx, func(ctx context.Context) (*lists.List, error) {
			if reading.Add(1) > 1 { // the second time, it hangs until its context ends
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return source.read(ctx)
		}, lists.WatchOptions{OnError: source.onError})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // it is being read
		end()
		synctest.Wait()
		if _, told := source.since(); len(told) != 0 || reading.Load() != 2 || !live.List().Has(first, "") {
			t.Errorf("told %v, read %d times: the end is no error, and the list stays", told, reading.Load())
		}
	}) // which fails if a goroutine is left
}

func TestAReadingThatHangsHasFailed(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		begun := time.Now()
		_, err := lists.Watch(t.Context(), func(ctx context.Context) (*lists.List, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, lists.WatchOptions{Every: time.Second})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Second {
			t.Errorf("error %v after %v, want 5 seconds", err, time.Since(begun))
		}
	})
}

func TestWithoutOnErrorTheLogIsToldOfWhatIsNew(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	bubbletest.Run(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		source := &scripted{list: lists.Of("203.0.113.1")}
		if _, err := lists.Watch(ctx, source.read, lists.WatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, reason := range []error{errDown, errors.New("still down"), nil, errors.New("still down")} {
			source.say(nil, reason)
			time.Sleep(time.Minute)
		}
		end()
		synctest.Wait()
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], `msg="lists: a list could not be read, and stays as it was" error="lists: down"`) || !strings.Contains(lines[1], "still down") {
		t.Errorf("logged\n%s", log.String())
	}
}

func TestWatchPanicsOnWhatMakesNoSense(t *testing.T) {
	for want, watch := range map[string]func(){
		"lists: Watch: the source is nil":                  func() { _, _ = lists.Watch(t.Context(), nil, lists.WatchOptions{}) },
		"lists: Watch: Every is -1s, which is less than 0": func() { _, _ = lists.Watch(t.Context(), new(scripted).read, lists.WatchOptions{Every: -time.Second}) },
		"lists: Redis: the client is nil":                  func() { lists.Redis(nil, "deny") },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panics with %q, want %q", got, want)
				}
			}()
			watch()
		}()
	}
}

// A file is replaced, truncated, deleted and half written while requests look addresses up.
// One address is in every list, and one in none.
func TestRequestsLookUpWhileAFileIsReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny.txt")
	write(t, path, "203.0.113.1\n203.0.113.2\n")
	ctx, end := context.WithCancel(t.Context())
	var failures, readings atomic.Int64
	source := lists.File(path)
	live, err := lists.Watch(ctx, func(ctx context.Context) (*lists.List, error) {
		readings.Add(1)
		return source(ctx)
	}, lists.WatchOptions{Every: 100 * time.Microsecond, OnError: func(error) { failures.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	var requests sync.WaitGroup
	for range 4 {
		requests.Go(func() {
			for ctx.Err() == nil {
				if !live.List().Has(first, "") || live.List().Has(netip.Addr{}, "user:42") {
					t.Error("a list is in force that was never written")
					return
				}
				runtime.Gosched() // there may be fewer processors than goroutines
			}
		})
	}
	for i := range 20 {
		for _, text := range []string{"203.0.113.1\n", "", "203.0.113.1\n203.0.113.0/2", fmt.Sprintf("203.0.113.0/24\n198.51.100.%d\n", i)} {
			write(t, path, text)
			for seen := readings.Load(); readings.Load() < seen+2 && !t.Failed(); {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
	end()
	requests.Wait()
	if failures.Load() == 0 {
		t.Error("no reading has failed: nothing was tried")
	}
}

// Lists may be swapped by hand, by several at once.
func TestASwappedListIsInForceAtOnce(t *testing.T) {
	live := new(lists.Live)
	if live.List().Has(first, "") || live.List().Has(netip.Addr{}, "user:42") || live.List() != nil || live.List().Prefixes()+live.Keys() != 0 {
		t.Error("the zero value is not empty")
	}
	list := lists.Of("203.0.113.1", "key:user:42")
	if old := live.Swap(list); old != nil || !live.List().Has(first, "") || !live.List().Has(netip.Addr{}, "user:42") {
		t.Errorf("the list is not in force; before it was %v", old)
	}
	if old := live.Swap(nil); old != list || live.List().Has(first, "") {
		t.Error("nil is not the empty list")
	}
}
