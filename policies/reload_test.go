package policies

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// reloads follows texts that a test gives, one reading at a time.
type reloads struct {
	t      *testing.T
	log    bytes.Buffer
	told   []Changes
	errors []string

	mu    sync.Mutex
	text  string
	read  func() // what the source does before it returns the text
	reads int
}

// watch begins with a text.
func (r *reloads) watch(ctx context.Context, options Options) *Set {
	r.t.Helper()
	if options.Logger == nil {
		options = r.recording(options)
	}
	s, err := Watch(ctx, Func("here", func(context.Context) ([]byte, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reads++
		if r.read != nil {
			r.read()
		}
		return []byte(r.text), nil
	}), options)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// recording returns options with a log and functions that record, in place of missing ones.
func (r *reloads) recording(options Options) Options {
	options.Logger = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	if options.OnChange == nil {
		options.OnChange = func(all Changes) { r.told = append(r.told, all) }
	}
	if options.OnError == nil {
		options.OnError = func(err error) { r.errors = append(r.errors, err.Error()) }
	}
	return options
}

// next lets one reading pass, which finds a text.
func (r *reloads) next(text string) {
	r.mu.Lock()
	r.text = text
	r.mu.Unlock()
	r.wait()
}

// wait lets one reading pass.
func (r *reloads) wait() {
	for before := r.count(); r.count() == before; {
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

// reading sets what the source does before it returns the text.
func (r *reloads) reading(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = f
}

// count returns how many readings there were.
func (r *reloads) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// A document that takes the place of another one is told once, in the words of weir plan. The first one, and what changes nothing, is not.
func TestReloadIsTold(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &reloads{t: t, text: "limits: {a: 'leaky 1, 1/h'}\npolicies: [{limit: a, key: global}]\n"}
		s := r.watch(ctx, Options{})
		if r.log.Len() > 0 || len(r.told) > 0 {
			t.Errorf("the start is told: %s%v", &r.log, r.told)
		}
		r.next("limits: {a: 'leaky 2, 1/h'}\npolicies: [{limit: a, key: global}, {limit: 'gcra 5, 1/s', key: ip}]\n")
		if len(r.told) != 1 || r.told[0].Summary() != "1 added, 1 changed." || r.told[0][0].String() != "~ limit a: leaky 1, 1/h → leaky 2, 1/h" {
			t.Errorf("told %v", r.told)
		}
		const want = `level=INFO msg="policies: another document is in force" source=here summary="1 added, 1 changed." changes="[` +
			`~ limit a: leaky 1, 1/h → leaky 2, 1/h The units used are kept. Used by: a (all requests). ` +
			`+ policy gcra 5, 1/s (all requests): gcra 5, 1/s, key ip]"` + "\n"
		if r.log.String() != want {
			t.Errorf("%s, want\n%s", &r.log, want)
		}
		r.wait()
		if len(r.told) != 1 {
			t.Errorf("it is told again")
		}
		r.next(r.text + "# a comment\n")
		if len(r.told) != 2 || len(r.told[1]) != 0 || !strings.Contains(r.log.String(), `summary="Nothing changes." changes=[]`) {
			t.Errorf("told %v, %s", r.told, &r.log)
		}
		for _, text := range []string{"", "{}", "limits: {}\n", "policies: []\n", "lists: {deny: [192.0.2.1]}\n", r.text[:40]} {
			before := s.Document()
			r.errors = nil
			r.next(text)
			if s.Document() != before || len(r.told) != 2 || len(r.errors) != 1 {
				t.Errorf("%q: told %v, errors %q", text, r.told[2:], r.errors)
			}
		}
		r.next("limitsNothing: true\n")
		if len(s.Document().Policies) != 0 || len(r.told) != 3 || r.told[2].Summary() != "3 removed." {
			t.Errorf("%v, told %v", s.Document(), r.told)
		}
		cancel()
		synctest.Wait()
	})
}

// To read a document logs nothing, whatever a limiter would warn of. A reload that is put in force is one line, in the logger of the set.
func TestParsingLogsNothing(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	const text = "bans: {guesses: 'ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d'}\npolicies:\n" +
		"  - {match: /login, ban: guesses, key: ip, strike: {401: 1}}\n" // guard.New warns of a ban that stands alone
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = d.Set(Options{}); err != nil {
		t.Fatal(err)
	}
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &reloads{t: t, text: text}
		r.watch(ctx, Options{})
		r.next(text + "  - {limit: 'gcra 5, 1/s', key: ip}\n")
		if lines := strings.Count(r.log.String(), "\n"); lines != 1 || !strings.Contains(r.log.String(), `summary="1 added."`) {
			t.Errorf("the set has logged %d lines: %s", lines, &r.log)
		}
		cancel()
		synctest.Wait()
	})
	if log.Len() > 0 {
		t.Errorf("the default logger has %s", &log)
	}
}

// A line of the log names twenty changes at most, and the program is told of all.
func TestLongReloadIsOneLine(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		policies := func(n int) string {
			var b strings.Builder
			b.WriteString("policies:\n")
			for i := range n {
				fmt.Fprintf(&b, "  - {match: /%d, limit: 'leaky 1, 1/h', key: ip}\n", i)
			}
			return b.String()
		}
		r := &reloads{t: t, text: policies(1)}
		r.watch(ctx, Options{})
		r.next(policies(50))
		if got := r.log.String(); strings.Count(got, "\n") != 1 || strings.Count(got, "+ policy") != 20 || !strings.Contains(got, "and 29 more") || len(r.told[0]) != 49 {
			t.Errorf("%d told: %s", len(r.told[0]), got)
		}
		cancel()
		synctest.Wait()
	})
}

// What panics after the start is an error of that reading, or is logged. The readings go on.
func TestPanicsAfterTheStart(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &reloads{t: t, text: numbered(1)}
		s := r.watch(ctx, Options{OnChange: func(Changes) { panic("on change") }})
		r.reading(func() { panic("in the source") })
		r.wait()
		if len(r.errors) != 1 || r.errors[0] != "policies: here: the reading panicked: in the source" || capacity(s) != 1 {
			t.Errorf("%q", r.errors)
		}
		r.reading(nil)
		r.next(numbered(2))
		if capacity(s) != 2 || !strings.Contains(r.log.String(), `msg="policies: here: the function that is told of changes panicked" panic="on change"`) {
			t.Errorf("capacity %d: %s", capacity(s), &r.log)
		}
		r.next(numbered(3))
		if capacity(s) != 3 {
			t.Errorf("capacity %d", capacity(s))
		}
		cancel()
		synctest.Wait()
	})
}

// An error that panics where it is told is logged, and so is nothing if the logger panics itself.
func TestPanicsWhereErrorsAreTold(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &reloads{t: t, text: numbered(1)}
		s := r.watch(ctx, Options{OnError: func(error) { panic("on error") }})
		r.next("x")
		if !strings.Contains(r.log.String(), `msg="policies: here: the function that is told of errors panicked" panic="on error"`) {
			t.Error(&r.log)
		}
		silent := &reloads{t: t, text: numbered(1)}
		other := silent.watch(ctx, Options{Logger: slog.New(panics{})})
		silent.next("x")
		silent.next(numbered(2))
		r.next(numbered(2))
		if capacity(s) != 2 || capacity(other) != 2 {
			t.Errorf("capacities %d and %d", capacity(s), capacity(other))
		}
		cancel()
		synctest.Wait()
	})
}

// panics is a handler of a logger.
type panics struct{}

func (panics) Enabled(context.Context, slog.Level) bool  { return true }
func (panics) Handle(context.Context, slog.Record) error { panic("in the logger") }
func (p panics) WithAttrs([]slog.Attr) slog.Handler      { return p }
func (p panics) WithGroup(string) slog.Handler           { return p }

// A panic of the first reading ends the program, unless something is in force.
func TestPanicAtTheStart(t *testing.T) {
	broken := Func("here", func(context.Context) ([]byte, error) { panic("at the start") })
	func() {
		defer func() {
			if cause := recover(); cause != "at the start" {
				t.Errorf("%v", cause)
			}
		}()
		_, _ = Watch(t.Context(), broken, Options{})
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs told
	if _, err := Watch(ctx, broken, Options{Start: &Document{LimitsNothing: true}, OnError: errs.tell}); err != nil || errs.text() != "policies: here: the reading panicked: at the start" {
		t.Errorf("%v, told %s", err, errs.text())
	}
}

// A text that has failed is not looked at again until it is another one, and each reading that finds it is an error.
func TestFailedTextIsLookedAtOnce(t *testing.T) {
	for name, signed := range map[string]bool{"a source": false, "a signed source": true} {
		public, private := newKey(t)
		var text string
		looks := 0
		source := Func("here", func(context.Context) ([]byte, error) {
			if signed {
				return sign(t, text, private, 1), nil
			}
			return []byte(text), nil
		})
		if signed {
			source = Signed(source, public)
		}
		s := &Set{options: Options{}.checked()}
		read := func(of string) error {
			text = of
			return source.read(t.Context(), func(text []byte) error { looks++; return s.swapText(text) })
		}
		for i, step := range []struct {
			text  string
			looks int
			fails bool
		}{
			{numbered(1), 1, false},
			{numbered(1), 1, false},
			{"x: 1\n", 2, true},
			{"x: 1\n", 2, true},
			{"y: 1\n", 3, true},
			{"x: 1\n", 4, true},
			{numbered(1), 4, false}, // which is in force
			{numbered(2), 5, false},
			{numbered(2), 5, false},
		} {
			err := read(step.text)
			if looks != step.looks || (err != nil) != step.fails {
				t.Errorf("%s, step %d: %d looks, want %d: %v", name, i, looks, step.looks, err)
			}
		}
	}
}

// A file that has failed is read again, and looked at once.
func TestFailedFileIsLookedAtOnce(t *testing.T) {
	path := t.TempDir() + "/limits.yaml"
	write(t, path, "x: 1\n")
	source, looks := File(path), 0
	for range 3 {
		err := source.read(t.Context(), func([]byte) error { looks++; return errDown })
		if err != errDown { //nolint:errorlint // it is the same one
			t.Errorf("%v", err)
		}
	}
	if looks != 1 {
		t.Errorf("%d looks", looks)
	}
}

// A file that has been read, and is written in place then, is read again when it has been left alone for a second.
func TestFileWrittenInPlaceIsReadWhenLeftAlone(t *testing.T) {
	path := t.TempDir() + "/limits.yaml"
	dated := func(text string, at time.Time) {
		write(t, path, text)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for {
		dated(numbered(1), time.Now())
		source, got := File(path), ""
		read := func() {
			if err := source.read(t.Context(), func(text []byte) error { got = string(text); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if got != numbered(1) {
			t.Fatal("a new file is not read at the start")
		}
		written := time.Now()
		dated(numbered(2), written)
		read()
		if time.Since(written) >= unchanged { // the machine is too slow to tell
			continue
		}
		if got != numbered(1) {
			t.Error("it is read while somebody may go on writing")
		}
		dated(numbered(2), written.Add(-unchanged))
		read()
		if got != numbered(2) {
			t.Error("it is not read when it has been left alone")
		}
		return
	}
}
